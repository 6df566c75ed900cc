//! Packets after changes of their headers.

use std::process::Command;

use linerate_memory::ArenaOptions;
use linerate_ofswitch::edit::Bytes;
use linerate_ofswitch::key::{Key, extract};
use linerate_ofswitch::pipeline::Step;
use linerate_openflow::wire::field::Needs;
use linerate_openflow::wire::{Entry, Field, VLAN_PRESENT};

use crate::generate::{Random, check, packet, sum};
use crate::pcap;

fn key(bytes: &[u8]) -> Key {
    let mut key = Key::default();
    extract(bytes, &mut key);
    key
}

/// Returns the name of a wrong checksum in a packet of IP behind at most one tag.
fn wrong_checksums(bytes: &[u8]) -> Option<String> {
    let read = key(bytes);
    let at = if read.get(Field::VlanTci) == 0 { 14 } else { 18 };
    let kind = u16::from_be_bytes([bytes[at - 2], bytes[at - 1]]);
    let ip = &bytes[at..];
    let protocol = read.get(Field::IpProto) as u8;
    let (addresses, carried) = match kind {
        0x0800 => {
            let header = usize::from(ip[0] & 15) * 4;
            if sum(&ip[..header]) != 0xffff {
                return Some("IPv4".into());
            }
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            (&ip[12..20], &ip[header..total])
        }
        0x86dd => {
            let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            if ip[6] != protocol {
                return None;
            }
            (&ip[8..40], &ip[40..40 + length])
        }
        _ => return None,
    };
    if read.get(Field::IpFrag) != 0 {
        return None;
    }
    let right = match protocol {
        17 if carried[6..8] == [0, 0] => true,
        6 | 17 => check(carried, protocol, addresses) == 0,
        58 if addresses.len() == 32 => check(carried, protocol, addresses) == 0,
        1 if addresses.len() == 8 => check(carried, protocol, addresses) == 0,
        132 => {
            let mut zero = carried.to_vec();
            zero[8..12].fill(0);
            check(&zero, protocol, addresses).to_le_bytes() == carried[8..12]
        }
        _ => true,
    };
    (!right).then(|| format!("protocol {protocol}"))
}

/// Fields of headers that can be set without the packet becoming another.
fn settable(key: &Key) -> Vec<Field> {
    let settable = |field: &Field| {
        let has = match field {
            Field::EthType | Field::IpProto | Field::Icmpv6Type | Field::Icmpv6Code => false,
            Field::EthDst | Field::EthSrc => true,
            Field::VlanTci | Field::VlanVid => key.get(Field::VlanTci) != 0,
            // Where there is the option.
            Field::NdSll | Field::NdTll => key.meets(Needs::Discovery) && key.get(*field) != 0,
            Field::NdTarget => key.meets(field.needs()) && key.get(*field) != 0,
            Field::NshC1 | Field::NshC2 | Field::NshC3 | Field::NshC4 => {
                key.meets(Needs::Nsh) && key.get(Field::NshMdType) == 1
            }
            Field::SctpSrc | Field::SctpDst => {
                key.get(Field::IpFrag) == 0 && key.meets(field.needs())
            }
            _ => key.meets(field.needs()),
        };
        has && field.is_settable() && linerate_ofswitch::key::is_of_headers(*field)
    };
    Field::ALL.iter().copied().filter(settable).collect()
}

fn random_entry(random: &mut Random, field: Field) -> Entry {
    let mut value = random.wide();
    let mut mask = random.wide();
    match field {
        Field::VlanTci | Field::VlanVid => value |= VLAN_PRESENT,
        Field::ArpOp => value &= 0xff,
        // Only bits that are on the wire.
        Field::NshFlags => value &= 0x3,
        Field::NshTtl => value &= 0x3f,
        // A second option is known by the first not being zero.
        Field::NdSll | Field::NdTll => value |= 1,
        _ => {}
    }
    if !field.is_maskable() || random.one_in(2) || matches!(field, Field::NdSll | Field::NdTll) {
        mask = u128::MAX;
    }
    Entry::masked(field, value, mask)
}

/// Packets that have been changed, and which of them had a checksum that was right before.
fn changed(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(2);
    let mut packets = Vec::new();
    let mut kinds = std::collections::BTreeMap::new();
    while packets.len() < count {
        let mut packet = packet(&mut random);
        for _ in 0..4 {
            let before = key(&packet);
            let fields = settable(&before);
            let field = random.choose(&fields);
            let entry = random_entry(&mut random, field);
            let mut wanted = before;
            wanted.set_entry(&entry);
            let old = packet.clone();
            assert!(Step::Set(entry).apply(&mut packet));
            let found = key(&packet);
            assert_eq!(found, wanted, "{entry:?} in {old:02x?}");
            assert_eq!(wrong_checksums(&packet), None, "{entry:?} in {old:02x?}");
            *kinds.entry(field).or_insert(0) += 1;
        }
        packets.push(packet);
    }
    // All there are but those left out above.
    assert!(kinds.len() == 44, "{kinds:?}");
    packets
}

#[test]
fn set_fields_are_read_and_checksums_are_right() {
    changed(20_000);
}

/// Checksums and headers as another program sees them.
#[test]
#[ignore = "needs tshark"]
fn tshark_finds_no_wrong_checksum() {
    let program = linerate_test_support::require("tshark");
    let packets = changed(4_000);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("changed.pcap");
    pcap::write(&file, &packets);
    const PROTOCOLS: [&str; 6] = ["ip", "tcp", "udp", "sctp", "icmp", "icmpv6"];
    let mut command = Command::new(program);
    command.arg("-r").arg(&file).args(["-n", "-T", "fields"]);
    command.args(["-o", "sctp.checksum:CRC 32c", "-o", "ip.defragment:FALSE"]);
    command.args(["-o", "ipv6.defragment:FALSE"]);
    for protocol in &PROTOCOLS[..3] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for protocol in PROTOCOLS {
        command.args(["-e", &format!("{protocol}.checksum.status")]);
    }
    command.args(["-e", "ip.proto"]);
    let output = command.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), packets.len());
    let mut good = [0; PROTOCOLS.len()];
    for (nth, line) in text.lines().enumerate() {
        let (line, carried) = line.rsplit_once('\t').expect("several columns");
        // The payload of labels is guessed, and whether addresses belong to a checksum of ICMPv6 in
        // IPv4.
        let mut inside = packets[nth].clone();
        while key(&inside).get(Field::VlanTci) != 0 {
            Step::PopVlan.apply(&mut inside);
        }
        if key(&inside).meets(Needs::Mpls) {
            continue;
        }
        if carried.split(',').any(|protocol| protocol == "58") {
            continue;
        }
        for (protocol, status) in line.split('\t').enumerate() {
            // Of packets in packets the outer comes first.
            let status = status.split(',').next();
            assert_ne!(
                status,
                Some("0"),
                "{}: {line:?} {:02x?}",
                PROTOCOLS[protocol],
                packets[nth]
            );
            good[protocol] += usize::from(status == Some("1"));
        }
    }
    assert!(good.iter().all(|&good| good > 50), "{PROTOCOLS:?}: {good:?}");
}

#[test]
fn a_checksum_of_udp_that_is_none_stays_so() {
    let mut random = Random::new(3);
    let mut none = 0;
    while none < 100 {
        let mut packet = packet(&mut random);
        let read = key(&packet);
        let at = if read.get(Field::VlanTci) == 0 { 14 } else { 18 };
        if read.get(Field::EthType) != 0x0800
            || read.get(Field::IpProto) != 17
            || packet[at] != 0x45
        {
            continue;
        }
        if read.get(Field::IpFrag) & 2 != 0 || packet[at + 26..at + 28] != [0, 0] {
            continue;
        }
        for field in [Field::Ipv4Src, Field::UdpDst] {
            Step::Set(Entry::exact(field, random.wide())).apply(&mut packet);
        }
        assert_eq!(packet[at + 26..at + 28], [0, 0]);
        none += 1;
    }
}

/// Buffers of an arena do as a vector does, with room in front and without.
#[test]
fn packets_of_an_arena_are_changed_the_same() {
    let options =
        ArenaOptions { size: 4 << 20, huge: false, buffer_size: 448, ..Default::default() };
    let arena = options.create().expect("memory can be had");
    let mut pool = arena.cache(16);
    let mut random = Random::new(4);
    let mut refused = 0;
    for _ in 0..2_000 {
        let bytes = packet(&mut random);
        let mut slot = pool.take_one(bytes.len()).expect("a buffer");
        arena.packet_mut(&mut slot).expect("ours").copy_from_slice(&bytes);
        let mut plain = bytes.clone();
        for _ in 0..random.below(90) {
            let (tci, service) = (random.next() as u16, random.next() as u32);
            let step = match random.below(17) {
                0..6 => Step::PushVlan { kind: 0x8100, tci },
                6 => Step::PopVlan,
                7 | 8 => Step::PushMpls { kind: 0x8847, entry: service, tags: 1 },
                9 => Step::PopMpls(0x0800),
                11 => Step::EncapMpls { kind: 0x8847, entry: service },
                12 => Step::DecapMpls,
                13 => {
                    let header = Box::new([0x0f, 0xc2, 2, 3, 0, 0, 5, 255]);
                    Step::EncapNsh { header, frame: service % 2 == 0 }
                }
                14 | 15 => Step::DecapNsh,
                10 => Step::PushPbb { kind: 0x88e7, service },
                _ => Step::PopPbb,
            };
            let mut packet = arena.writable(&mut slot).expect("not shared");
            let done = step.apply(&mut packet);
            if done {
                step.apply(&mut plain);
            } else {
                refused += 1;
            }
            assert_eq!(Bytes::bytes(&packet), plain, "{step:?}");
        }
        pool.give_one(slot);
    }
    assert!(refused > 100, "{refused}");
}
