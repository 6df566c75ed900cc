//! Arbitrary bytes as packets: nothing panics, each word is the same alone and with others, and a
//! field that is set is read back.

use linerate_ofswitch::edit::Bytes;
use linerate_ofswitch::key::{HEADERS, INNER_TCI, Key, Mask, Needed, extract, extract_needed};
use linerate_ofswitch::pipeline::Step;
use linerate_openflow::wire::{Entry, Field, VLAN_PRESENT};

/// Takes the bytes as a packet.
pub(crate) fn packet(bytes: &[u8]) {
    let mut key = Key::default();
    key.words_mut().fill(0x5555_5555_5555_5555);
    let others = key;
    extract(bytes, &mut key);
    for (nth, (word, other)) in key.words().iter().zip(others.words()).enumerate() {
        assert!(HEADERS.contains(&nth) || word == other, "word {nth}");
    }
    for nth in HEADERS {
        let mut mask = Mask::default();
        mask.words_mut()[nth] = if nth == 5 { 0xffff } else { u64::MAX };
        part(bytes, &key, &mask);
        mask.words_mut()[nth] = u64::MAX;
        part(bytes, &key, &mask);
        mask.words_mut()[2] = u64::MAX;
        part(bytes, &key, &mask);
    }
    // Every field can be printed.
    let said = key.to_string();
    assert_eq!(said.split(',').count(), key.fields().entries().len());
}

fn part(bytes: &[u8], key: &Key, mask: &Mask) {
    let mut part = *key;
    // Words that are not read stay, so missing ones show.
    part.words_mut()[HEADERS].fill(0x3333_3333_3333_3333);
    extract_needed(bytes, Needed::for_mask(mask), &mut part);
    assert_eq!(part.under(mask), key.under(mask), "{bytes:02x?}");
}

/// Takes some bytes as a field and its value, and the rest as a packet.
pub(crate) fn set(bytes: &[u8]) {
    let Some((choice, packet)) = bytes.split_first_chunk::<33>() else { return };
    let field = Field::ALL[usize::from(choice[0]) % Field::ALL.len()];
    let number =
        |at: usize| choice[at..at + 16].iter().fold(0, |sum, &byte| sum << 8 | u128::from(byte));
    let entry = Entry::masked(field, number(1), number(17));
    let (mut before, mut after) = (Key::default(), Key::default());
    extract(packet, &mut before);
    let mut changed = packet.to_vec();
    assert!(Step::Set(entry).apply(&mut changed));
    assert_eq!(changed.len(), packet.len());
    extract(&changed, &mut after);
    if !linerate_ofswitch::key::is_of_headers(field) {
        assert_eq!(changed, packet);
    }
    // The value is read back, unless it decides the type of the rest of the packet.
    if before.meets(field.needs()) && !decides(field) && after != before {
        let mut wanted = before;
        wanted.set_entry(&entry);
        assert_eq!(after, wanted, "{entry:?} in {packet:02x?}");
    }
    // A tag that is added and taken away again.
    let tci = (number(1) as u16) & 0xefff;
    let mut tagged = packet.to_vec();
    Step::PushVlan { kind: 0x88a8, tci }.apply(&mut tagged);
    let mut key = Key::default();
    extract(&tagged, &mut key);
    if packet.len() >= 14 {
        assert_eq!(key.get(Field::VlanTci), u128::from(tci) | VLAN_PRESENT);
        let inner = key.words()[INNER_TCI.word] >> INNER_TCI.shift & 0xffff;
        if before.get(Field::VlanTci) != 0 {
            assert_eq!(u128::from(inner), before.get(Field::VlanTci));
        }
    }
    Step::PopVlan.apply(&mut tagged);
    assert_eq!(tagged.bytes(), packet);
    let mut labelled = packet.to_vec();
    Step::PushMpls { kind: 0x8847, entry: number(1) as u32, tags: 1 }.apply(&mut labelled);
    if packet.len() >= 14 {
        extract(&labelled, &mut key);
        let kind = before.get(Field::EthType);
        assert_eq!(key.get(Field::EthType), 0x8847);
        assert_eq!(key.words()[10] & 0xffff_ffff, u64::from(number(1) as u32));
        // A length in the type's place is lost.
        Step::PopMpls(kind as u16).apply(&mut labelled);
        if kind != 0x05ff {
            assert_eq!(labelled, packet);
        }
    }
    let mut inside = packet.to_vec();
    Step::PushPbb { kind: 0x88e7, service: number(1) as u32 }.apply(&mut inside);
    Step::PopPbb.apply(&mut inside);
    if packet.len() >= 14 || before.get(Field::EthType) != 0x88e7 {
        assert_eq!(inside, packet);
    }
    let mut covered = packet.to_vec();
    let entry = number(1) as u32;
    Step::EncapMpls { kind: 0x8848, entry }.apply(&mut covered);
    if packet.len() >= 14 {
        extract(&covered, &mut key);
        assert_eq!((key.get(Field::EthType), key.get(Field::EthDst)), (0x8848, 0));
        assert_eq!(key.words()[10] & 0xffff_ffff, u64::from(entry));
        Step::DecapMpls.apply(&mut covered);
        assert_eq!(covered, packet);
    }
    service_header(packet, choice);
    for step in
        [Step::PopMpls(0x0800), Step::DecapMpls, Step::DecapNsh, Step::PopPbb, Step::PopVlan]
    {
        let mut less = packet.to_vec();
        step.apply(&mut less);
        assert!(less.len() <= packet.len());
    }
}

/// Adds a network service header with metadata of some length, and removes it again.
fn service_header(packet: &[u8], choice: &[u8; 33]) {
    let words = choice[32] % 62;
    let [_, flags, _, _, _, path @ ..] = choice;
    for (next, frame) in [(3, true), (1, false), (2, false), (4, false)] {
        let mut header = vec![flags & 0x3f, 2 + words, 2, next];
        header.extend(&path[..4]);
        header.extend(path.iter().cycle().take(4 * usize::from(words)));
        let mut covered = packet.to_vec();
        let step = Step::EncapNsh { header: header.clone().into(), frame };
        assert!(step.apply(&mut covered));
        if packet.len() < 14 {
            assert_eq!(covered, packet);
            continue;
        }
        let mut key = Key::default();
        extract(&covered, &mut key);
        let kind = u16::from_be_bytes([packet[12], packet[13]]);
        // Without an EtherType behind the addresses, the header goes elsewhere.
        if !frame && (kind < 0x0600 || matches!(kind, 0x8100 | 0x88a8)) {
            continue;
        }
        assert_eq!(key.get(Field::EthType), 0x894f, "{covered:02x?}");
        assert_eq!(key.get(Field::NshNp), u128::from(next));
        assert_eq!(key.get(Field::NshFlags), u128::from(flags >> 4 & 3));
        assert_eq!(key.get(Field::NshSi), u128::from(path[3]));
        Step::DecapNsh.apply(&mut covered);
        let mut wanted = packet.to_vec();
        match next {
            1 => wanted[12..14].copy_from_slice(&[0x08, 0x00]),
            2 => wanted[12..14].copy_from_slice(&[0x86, 0xdd]),
            4 => wanted[12..14].copy_from_slice(&[0x89, 0x4f]),
            _ => {}
        }
        assert_eq!(covered, wanted);
    }
}

/// Returns true if other fields depend on it, or it has bits that are not on the wire.
fn decides(field: Field) -> bool {
    matches!(
        field,
        Field::EthType
            | Field::IpProto
            | Field::Icmpv6Type
            | Field::Icmpv6Code
            | Field::VlanTci
            | Field::VlanVid
            | Field::ArpOp
            | Field::NdSll
            | Field::NdTll
            | Field::NshFlags
            | Field::NshTtl
    )
}
