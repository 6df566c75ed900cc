//! Calls everything the crate has on arbitrary bytes, and checks the invariants for any bytes.
//!
//! Used by the property test beside it and by the fuzz target `headers`.

use std::cell::Cell;
use std::hint::black_box;

use linerate_packet::flow::{VlanRule, extract};
use linerate_packet::patch::Patch;
use linerate_packet::vlan::Tci;
use linerate_packet::{
    Arp, EtherType, Ethernet, FlowKey, Icmp, Icmpv6, IpProtocol, Ipv4, Ipv6, MacAddr, Tcp,
    Toeplitz, Udp, Vlan, Vxlan, arp, checksum, icmp, icmpv6, ipv6_ext, rewrite, tcp, vlan,
};

/// Everything, on `data` as if it began with each header in turn.
pub(crate) fn exercise(data: &[u8]) {
    read_all(data);
    torn_reads(data);
    setters(data);
    flow_keys(data);
    rewrites(data);
    checksums(data);
}

/// Bytes that another process overwrites between the check and the use: the first call sees one
/// content, every later one another of the same length.
struct Torn<'a> {
    checked: &'a [u8],
    later: &'a [u8],
    used: Cell<bool>,
}

impl AsRef<[u8]> for Torn<'_> {
    fn as_ref(&self) -> &[u8] {
        if self.used.replace(true) { self.later } else { self.checked }
    }
}

fn torn_reads(data: &[u8]) {
    let later: Vec<u8> = data.iter().rev().map(|byte| !byte).collect();
    let ones = vec![0xff; data.len()];
    for later in [&later, &ones] {
        let torn = || Torn { checked: data, later, used: Cell::new(false) };
        Ethernet::new_checked(torn()).iter().for_each(read_ethernet);
        Vlan::new_checked(torn()).iter().for_each(read_vlan);
        Arp::new_checked(torn()).iter().for_each(read_arp);
        Ipv4::new_checked(torn()).iter().for_each(read_ipv4);
        Ipv6::new_checked(torn()).iter().for_each(read_ipv6);
        Icmp::new_checked(torn()).iter().for_each(read_icmp);
        Icmpv6::new_checked(torn()).iter().for_each(read_icmpv6);
        Udp::new_checked(torn()).iter().for_each(read_udp);
        Tcp::new_checked(torn()).iter().for_each(read_tcp);
        Vxlan::new_checked(torn()).iter().for_each(read_vxlan);
    }
}

fn read_all(data: &[u8]) {
    Ethernet::new_checked(data).iter().for_each(read_ethernet);
    Vlan::new_checked(data).iter().for_each(read_vlan);
    Arp::new_checked(data).iter().for_each(read_arp);
    Ipv4::new_checked(data).iter().for_each(read_ipv4);
    Ipv6::new_checked(data).iter().for_each(read_ipv6);
    Icmp::new_checked(data).iter().for_each(read_icmp);
    Icmpv6::new_checked(data).iter().for_each(read_icmpv6);
    Udp::new_checked(data).iter().for_each(read_udp);
    Tcp::new_checked(data).iter().for_each(read_tcp);
    Vxlan::new_checked(data).iter().for_each(read_vxlan);
    if let Ok(tags) = vlan::walk(data) {
        assert!(tags.payload <= data.len());
        assert_eq!(tags.payload, 14 + 4 * usize::from(tags.depth));
        assert_eq!(tags.outer.is_some(), tags.depth > 0);
        assert!(!tags.ether_type.is_vlan());
    }
}

fn read_ethernet<T: AsRef<[u8]>>(view: &Ethernet<T>) {
    black_box((view.dst(), view.src(), view.ether_type(), view.ether_type().is_length()));
    black_box((view.payload(), view.as_bytes(), view.to_string()));
}

fn read_vlan<T: AsRef<[u8]>>(view: &Vlan<T>) {
    black_box((view.tci(), view.ether_type(), view.payload(), view.to_string()));
}

fn read_arp<T: AsRef<[u8]>>(view: &Arp<T>) {
    black_box((view.operation(), view.sender_mac(), view.sender_ip()));
    black_box((view.target_mac(), view.target_ip(), view.to_string()));
}

fn read_ipv4<T: AsRef<[u8]>>(view: &Ipv4<T>) {
    black_box((view.header_len(), view.tos(), view.dscp(), view.ecn(), view.total_len()));
    black_box((view.ident(), view.dont_fragment(), view.more_fragments()));
    black_box((view.fragment_offset(), view.is_fragment(), view.ttl(), view.protocol()));
    black_box((view.checksum(), view.src(), view.dst(), view.verify_checksum()));
    black_box((view.payload(), view.pseudo_header(), view.to_string()));
    assert!(view.options().count() <= 40);
}

fn read_ipv6<T: AsRef<[u8]>>(view: &Ipv6<T>) {
    black_box((view.traffic_class(), view.dscp(), view.ecn(), view.flow_label()));
    black_box((view.payload_len(), view.next_header(), view.hop_limit()));
    black_box((view.src(), view.dst(), view.payload(), view.to_string()));
    black_box(view.pseudo_header(view.next_header(), 7));
    assert!(view.extensions().count() <= ipv6_ext::MAX_EXTENSIONS + 1);
    if let Ok(upper) = view.upper_layer() {
        assert!(upper.offset <= view.as_bytes().len());
        black_box((upper.has_header(), upper.is_fragment()));
    }
}

fn read_icmp<T: AsRef<[u8]>>(view: &Icmp<T>) {
    black_box((view.kind(), view.kind().is_error(), view.code(), view.checksum(), view.rest()));
    black_box((view.ident(), view.seq(), view.payload(), view.verify_checksum()));
    black_box(view.to_string());
}

fn read_icmpv6<T: AsRef<[u8]>>(view: &Icmpv6<T>) {
    black_box((view.kind(), view.kind().is_error(), view.code(), view.checksum(), view.rest()));
    black_box((view.ident(), view.seq(), view.target(), view.payload(), view.to_string()));
    black_box(view.verify_checksum(checksum::Sum::default()));
    assert!(view.neighbour_options().count() <= view.as_bytes().len());
}

fn read_udp<T: AsRef<[u8]>>(view: &Udp<T>) {
    black_box((view.src_port(), view.dst_port(), view.length(), view.checksum()));
    black_box((view.payload(), view.to_string()));
    black_box(view.verify_checksum(checksum::Sum::default()));
}

fn read_tcp<T: AsRef<[u8]>>(view: &Tcp<T>) {
    black_box((view.src_port(), view.dst_port(), view.seq(), view.ack(), view.header_len()));
    black_box((view.flags(), view.window(), view.checksum(), view.urgent()));
    black_box((view.payload(), view.to_string()));
    black_box(view.verify_checksum(checksum::Sum::default()));
    assert!(view.options().count() <= 40);
    for option in view.options().flatten() {
        if let tcp::TcpOption::Sack(blocks) = option {
            assert!(blocks.iter().count() <= 4);
        }
    }
}

fn read_vxlan<T: AsRef<[u8]>>(view: &Vxlan<T>) {
    black_box((view.vni(), view.payload(), view.to_string()));
}

/// Numbers for the setters, taken from the end of the data.
struct Values<'a>(&'a [u8]);

impl Values<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0x5a; N];
        for byte in &mut out {
            if let Some((last, rest)) = self.0.split_last() {
                *byte = *last;
                self.0 = rest;
            }
        }
        out
    }

    fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn mac(&mut self) -> MacAddr {
        MacAddr(self.bytes())
    }
}

/// Sets a field and reads it back.
macro_rules! round_trip {
    ($view:ident . $set:ident ( $value:expr ) == $get:ident) => {
        let value = $value;
        $view.$set(value);
        assert_eq!($view.$get(), value, stringify!($set));
    };
    ($view:ident . $set:ident ( $value:expr ) == $get:ident as $kept:expr) => {
        let (value, kept) = ($value, $kept);
        $view.$set(value);
        assert_eq!($view.$get(), kept(value), stringify!($set));
    };
}

/// Every setter on a view of its own, once over valid bytes if they are and once over blank ones;
/// the getter returns the value set, and all accessors still work with any lengths set.
fn setters(data: &[u8]) {
    let values = || Values(data);
    let mut copy = data.to_vec();
    let copy = &mut copy[..];
    Ethernet::new_checked(&mut *copy).into_iter().for_each(|v| set_ethernet(v, values()));
    Ethernet::init(&mut *copy).into_iter().for_each(|v| set_ethernet(v, values()));
    copy.copy_from_slice(data);
    Vlan::new_checked(&mut *copy).into_iter().for_each(|v| set_vlan(v, values()));
    Vlan::init(&mut *copy).into_iter().for_each(|v| set_vlan(v, values()));
    copy.copy_from_slice(data);
    Arp::new_checked(&mut *copy).into_iter().for_each(|v| set_arp(v, values()));
    Arp::init(&mut *copy).into_iter().for_each(|v| set_arp(v, values()));
    copy.copy_from_slice(data);
    Ipv4::new_checked(&mut *copy).into_iter().for_each(|v| set_ipv4(v, values()));
    Ipv4::init(&mut *copy).into_iter().for_each(|v| set_ipv4(v, values()));
    copy.copy_from_slice(data);
    Ipv6::new_checked(&mut *copy).into_iter().for_each(|v| set_ipv6(v, values()));
    Ipv6::init(&mut *copy).into_iter().for_each(|v| set_ipv6(v, values()));
    copy.copy_from_slice(data);
    Icmp::new_checked(&mut *copy).into_iter().for_each(|v| set_icmp(v, values()));
    Icmp::init(&mut *copy).into_iter().for_each(|v| set_icmp(v, values()));
    copy.copy_from_slice(data);
    Icmpv6::new_checked(&mut *copy).into_iter().for_each(|v| set_icmpv6(v, values()));
    Icmpv6::init(&mut *copy).into_iter().for_each(|v| set_icmpv6(v, values()));
    copy.copy_from_slice(data);
    Udp::new_checked(&mut *copy).into_iter().for_each(|v| set_udp(v, values()));
    Udp::init(&mut *copy).into_iter().for_each(|v| set_udp(v, values()));
    copy.copy_from_slice(data);
    Tcp::new_checked(&mut *copy).into_iter().for_each(|v| set_tcp(v, values()));
    Tcp::init(&mut *copy).into_iter().for_each(|v| set_tcp(v, values()));
    copy.copy_from_slice(data);
    Vxlan::new_checked(&mut *copy).into_iter().for_each(|v| set_vxlan(v, values()));
    Vxlan::init(&mut *copy).into_iter().for_each(|v| set_vxlan(v, values()));
}

fn set_ethernet(mut view: Ethernet<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_dst(values.mac()) == dst);
    round_trip!(view.set_src(values.mac()) == src);
    round_trip!(view.set_ether_type(EtherType(values.u16())) == ether_type);
    view.payload_mut().fill(values.u8());
    read_ethernet(&view);
}

fn set_vlan(mut view: Vlan<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_tci(Tci(values.u16())) == tci);
    let tci = view.tci();
    assert_eq!(Tci::new(tci.priority(), tci.drop_eligible(), tci.id()), tci);
    round_trip!(view.set_ether_type(EtherType(values.u16())) == ether_type);
    view.payload_mut().fill(values.u8());
    read_vlan(&view);
}

fn set_arp(mut view: Arp<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_operation(arp::Operation(values.u16())) == operation);
    round_trip!(view.set_sender_mac(values.mac()) == sender_mac);
    round_trip!(view.set_sender_ip(values.u32().into()) == sender_ip);
    round_trip!(view.set_target_mac(values.mac()) == target_mac);
    round_trip!(view.set_target_ip(values.u32().into()) == target_ip);
    read_arp(&view);
    assert!(Arp::new_checked(view.into_inner()).is_ok(), "no setter makes it invalid");
}

fn set_ipv4(mut view: Ipv4<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_dscp(values.u8() & 0x3f) == dscp);
    round_trip!(view.set_ecn(values.u8() & 3) == ecn);
    round_trip!(view.set_tos(values.u8()) == tos);
    round_trip!(view.set_ident(values.u16()) == ident);
    let (flags, offset) = (values.u8(), values.u16());
    view.set_fragmentation(flags & 1 != 0, flags & 2 != 0, offset);
    assert_eq!(view.dont_fragment(), flags & 1 != 0);
    assert_eq!(view.more_fragments(), flags & 2 != 0);
    assert_eq!(view.fragment_offset(), offset & !7);
    round_trip!(view.set_ttl(values.u8()) == ttl);
    round_trip!(view.set_protocol(IpProtocol(values.u8())) == protocol);
    round_trip!(view.set_src(values.u32().into()) == src);
    round_trip!(view.set_dst(values.u32().into()) == dst);
    view.fill_checksum();
    assert!(view.header_len() > view.as_bytes().len() || view.verify_checksum());
    let ttl = view.ttl();
    if view.decrement_ttl() {
        assert_eq!(view.ttl(), ttl - 1);
        assert!(view.header_len() > view.as_bytes().len() || view.verify_checksum());
    } else {
        assert!(view.ttl() == ttl && ttl <= 1);
    }
    round_trip!(view.set_checksum(values.u16()) == checksum);
    round_trip!(view.set_total_len(values.u16()) == total_len);
    round_trip!(view.set_header_len(values.u8()) == header_len as |len: u8| {
        usize::from(len.min(60)) & !3
    });
    read_ipv4(&view);
    view.options_mut().fill(values.u8());
    view.payload_mut().fill(values.u8());
    view.fill_checksum();
    read_ipv4(&view);
}

fn set_ipv6(mut view: Ipv6<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_flow_label(values.u32() & 0xf_ffff) == flow_label);
    let label = view.flow_label();
    round_trip!(view.set_traffic_class(values.u8()) == traffic_class);
    assert_eq!(view.flow_label(), label);
    round_trip!(view.set_next_header(IpProtocol(values.u8())) == next_header);
    round_trip!(view.set_hop_limit(values.u8()) == hop_limit);
    let limit = view.hop_limit();
    assert_eq!(view.decrement_hop_limit(), limit > 1);
    assert_eq!(view.hop_limit(), if limit > 1 { limit - 1 } else { limit });
    round_trip!(view.set_src(u128::from_le_bytes(values.bytes()).into()) == src);
    round_trip!(view.set_dst(u128::from_le_bytes(values.bytes()).into()) == dst);
    read_ipv6(&view);
    round_trip!(view.set_payload_len(values.u16()) == payload_len);
    read_ipv6(&view);
    view.payload_mut().fill(values.u8());
    read_ipv6(&view);
}

fn set_icmp(mut view: Icmp<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_kind(icmp::IcmpType(values.u8())) == kind);
    round_trip!(view.set_code(values.u8()) == code);
    round_trip!(view.set_rest(values.u32()) == rest);
    round_trip!(view.set_ident(values.u16()) == ident);
    round_trip!(view.set_seq(values.u16()) == seq);
    round_trip!(view.set_checksum(values.u16()) == checksum);
    view.payload_mut().fill(values.u8());
    view.fill_checksum();
    assert!(view.verify_checksum());
    read_icmp(&view);
}

fn set_icmpv6(mut view: Icmpv6<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_kind(icmpv6::Icmpv6Type(values.u8())) == kind);
    round_trip!(view.set_code(values.u8()) == code);
    round_trip!(view.set_rest(values.u32()) == rest);
    round_trip!(view.set_ident(values.u16()) == ident);
    round_trip!(view.set_seq(values.u16()) == seq);
    round_trip!(view.set_checksum(values.u16()) == checksum);
    view.payload_mut().fill(values.u8());
    let mut pseudo = checksum::Sum::default();
    pseudo.add_u32(0x0102_0304);
    view.fill_checksum(pseudo);
    assert!(view.verify_checksum(pseudo));
    for kind in
        [icmpv6::Icmpv6Type::NEIGHBOUR_SOLICITATION, icmpv6::Icmpv6Type::NEIGHBOUR_ADVERTISEMENT]
    {
        view.set_kind(kind);
        read_icmpv6(&view);
    }
}

fn set_udp(mut view: Udp<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_src_port(values.u16()) == src_port);
    round_trip!(view.set_dst_port(values.u16()) == dst_port);
    round_trip!(view.set_checksum(values.u16()) == checksum);
    let mut pseudo = checksum::Sum::default();
    pseudo.add_u16(17);
    view.fill_checksum(pseudo);
    assert_ne!(view.checksum(), 0);
    assert!(usize::from(view.length()) < 8 || view.verify_checksum(pseudo));
    round_trip!(view.set_length(values.u16()) == length);
    read_udp(&view);
    view.payload_mut().fill(values.u8());
    view.fill_checksum(pseudo);
    read_udp(&view);
}

fn set_tcp(mut view: Tcp<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_src_port(values.u16()) == src_port);
    round_trip!(view.set_dst_port(values.u16()) == dst_port);
    round_trip!(view.set_seq(values.u32()) == seq);
    round_trip!(view.set_ack(values.u32()) == ack);
    round_trip!(view.set_flags(tcp::Flags(values.u8())) == flags);
    round_trip!(view.set_window(values.u16()) == window);
    round_trip!(view.set_urgent(values.u16()) == urgent);
    round_trip!(view.set_checksum(values.u16()) == checksum);
    let mut pseudo = checksum::Sum::default();
    pseudo.add_u16(6);
    view.fill_checksum(pseudo);
    assert!(view.verify_checksum(pseudo));
    round_trip!(view.set_header_len(values.u8()) == header_len as |len: u8| {
        usize::from(len.min(60)) & !3
    });
    read_tcp(&view);
    view.options_mut().fill(values.u8());
    view.payload_mut().fill(values.u8());
    read_tcp(&view);
}

fn set_vxlan(mut view: Vxlan<&mut [u8]>, mut values: Values<'_>) {
    round_trip!(view.set_vni(values.u32() & 0xff_ffff) == vni);
    view.payload_mut().fill(values.u8());
    read_vxlan(&view);
    assert!(Vxlan::new_checked(view.into_inner()).is_ok(), "no setter makes it invalid");
}

fn flow_keys(data: &[u8]) {
    for rule in [VlanRule::Outer, VlanRule::Inner, VlanRule::Ignore] {
        let Ok(flow) = extract(data, rule) else {
            continue;
        };
        let (network, transport) = (usize::from(flow.network), usize::from(flow.transport));
        assert!(14 <= network && network + 20 <= transport && transport <= data.len());
        assert!(!flow.fragment || flow.key.ports() == (0, 0));
        let symmetric = flow.key.symmetric();
        assert_eq!(symmetric, flow.key.reversed().symmetric());
        black_box((flow.key.hash64(1), Toeplitz::MICROSOFT.hash_flow(&flow.key)));
        assert_eq!(
            Toeplitz::SYMMETRIC.hash_flow(&flow.key),
            Toeplitz::SYMMETRIC.hash_flow(&flow.key.reversed())
        );
        black_box(flow.key.to_string());
        patched_flow(data, &flow, rule);
    }
}

/// Patching a frame to its own reversed flow reverses its key.
fn patched_flow(data: &[u8], flow: &linerate_packet::Flow, rule: VlanRule) {
    if flow.fragment {
        return;
    }
    let mut frame = data.to_vec();
    let patch = Patch::new(flow.network, flow.transport, flow.key.protocol());
    let patched = match flow.key.reversed() {
        FlowKey::V4(key) => {
            patch.set_src_v4(&mut frame, key.src) && patch.set_dst_v4(&mut frame, key.dst)
        }
        FlowKey::V6(key) => {
            patch.set_src_v6(&mut frame, key.src) && patch.set_dst_v6(&mut frame, key.dst)
        }
    };
    let (src_port, dst_port) = flow.key.reversed().ports();
    let patched = patched
        && patch.set_src_port(&mut frame, src_port)
        && patch.set_dst_port(&mut frame, dst_port);
    if patched {
        let reversed = extract(&frame, rule).expect("addresses and ports do not make it invalid");
        assert_eq!(reversed.key, flow.key.reversed());
    }
}

fn rewrites(data: &[u8]) {
    let mut frame = data.to_vec();
    if rewrite::swap_macs(&mut frame) {
        assert_eq!(frame[..6], data[6..12]);
        assert_eq!(frame[6..12], data[..6]);
        assert_eq!(frame[12..], data[12..]);
        assert!(rewrite::swap_macs(&mut frame));
    }
    assert_eq!(frame, data, "left alone, or swapped twice");
    let (dst, src) = (MacAddr([1, 2, 3, 4, 5, 6]), MacAddr([7, 8, 9, 10, 11, 12]));
    let mut both = data.to_vec();
    let fits = rewrite::set_macs(&mut both, rewrite::mac_pair(dst, src));
    assert_eq!(rewrite::set_src_mac(&mut frame, src), fits);
    assert_eq!(rewrite::set_dst_mac(&mut frame, dst), data.len() >= 6);
    assert!(!fits || frame == both);

    let mut buffer = [vec![0xee; 4], data.to_vec()].concat();
    let tci = Tci::new(5, true, 77);
    if rewrite::push_vlan(&mut buffer, EtherType::QINQ, tci) {
        let tagged = Ethernet::new_checked(&buffer[..]).expect("longer than before");
        assert_eq!(tagged.ether_type(), EtherType::QINQ);
        assert_eq!(rewrite::pop_vlan(&mut buffer), Some(tci));
        assert_eq!(buffer[4..], *data);
    }
    black_box(rewrite::pop_vlan(&mut frame));
}

fn checksums(data: &[u8]) {
    let mut sum = 0u32;
    for pair in data.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    assert_eq!(checksum::checksum(data), !(sum as u16));
    assert_eq!(checksum::verify(data), sum == 0xffff);
    let mut pieces = checksum::Sum::default();
    for piece in data.chunks(usize::from(data.first().copied().unwrap_or(0) | 1)) {
        pieces.add_bytes(piece);
    }
    assert_eq!(pieces.finish(), !(sum as u16));
}
