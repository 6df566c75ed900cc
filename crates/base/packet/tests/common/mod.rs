//! Golden frames, made and checksummed by scapy 2.5, and the seed corpus.

#![allow(dead_code, reason = "each test binary uses some of them")]

/// Bytes from hexadecimal digits, spaces ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The frames the fuzz target `headers` starts from, by name: the golden ones and others by scapy,
/// and those named `linux_` as captured between two Linux hosts.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/headers");
    let mut seeds: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{folder}: {error}"))
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a readable seed"))
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 30, "{folder} has lost its seeds");
    seeds
}

pub(crate) const UDP_V4_VLAN: &str = "\
    02000000 00020200 00000001 81006064 08004500 00230000 40004011 6f1f0a00 0001c0a8 010203e8 \
     0009000f 242b0001 02030405 06";
pub(crate) const UDP_V6_QINQ: &str = "\
    02000000 00020200 00000001 88a800c8 81001007 86dd6b91 2345000f 11092001 0db80000 00000000 \
     00000000 00012001 0db80000 00000000 00000000 000203e8 0009000f 94610001 02030405 06";
pub(crate) const TCP_V4: &str = "\
    02000000 00020200 00000001 08004510 003b1234 00000306 d9ce0a00 0001c0a8 01029c40 01bb1122 \
     33445566 77888018 01f5edb1 00000101 080a0000 00010000 00020001 02030405 06";
pub(crate) const TCP_V6: &str = "\
    02000000 00020200 00000001 86dd6000 00000014 06402001 0db80000 00000000 00000000 00012001 \
     0db80000 00000000 00000000 00029c40 01bb0000 00010000 00005002 ffffb671 0000";
pub(crate) const ECHO_V4: &str = "\
    02000000 00020200 00000001 08004500 00230000 40004001 6f2f0a00 0001c0a8 01020800 d9bb1234 \
     00070001 02030405 06";
pub(crate) const ECHO_V6: &str = "\
    02000000 00020200 00000001 86dd6000 0000000f 3a402001 0db80000 00000000 00000000 00012001 \
     0db80000 00000000 00000000 00028100 04fd1234 00070001 02030405 06";
pub(crate) const VXLAN_V4: &str = "\
    02000000 00020200 00000001 08004500 002b0000 40004011 6f170a00 0001c0a8 0102c350 12b50017 \
     00000800 00001234 56000001 02030405 06";
pub(crate) const VXLAN_V6: &str = "\
    02000000 00020200 00000001 86dd6000 00000017 11402001 0db80000 00000000 00000000 00012001 \
     0db80000 00000000 00000000 0002c350 12b50017 52080800 00001234 56000001 02030405 06";
pub(crate) const EXTENSIONS_V6: &str = "\
    02000000 00020200 00000001 86dd6000 0000001f 00402001 0db80000 00000000 00000000 00012001 \
     0db80000 00000000 00000000 00023c00 05020000 01001100 01040000 00000005 0006000f 98470001 \
     02030405 06";
pub(crate) const FRAGMENT_V4: &str = "\
    02000000 00020200 00000001 08004500 001b0009 20b94011 8e650a00 0001c0a8 01020001 02030405 \
     06";
pub(crate) const FRAGMENT_V6: &str = "\
    02000000 00020200 00000001 86dd6000 00000017 2c402001 0db80000 00000000 00000000 00012001 \
     0db80000 00000000 00000000 00021100 00010000 00090005 00060064 12340001 02030405 06";
pub(crate) const ARP_REQUEST: &str = "\
    ffffffff ffff0200 00000001 08060001 08000604 00010200 00000001 0a000001 00000000 00000a00 \
     0002";
