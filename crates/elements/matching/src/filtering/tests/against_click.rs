//! Outputs of Click 2.1 for packets by random rules, `data/filters.txt`: lines of packets, an empty
//! line, and for each set of rules a line with the output of each packet (`x` for none) and one
//! with the rules. `RECORD_FROM=FOLDER cargo test -p linerate-elements against_click`, with the
//! folder that `click` is in, writes it.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Bench, plan, random::Random, rules};

/// Sets of rules that are recorded.
const SETS: u64 = 400;
const PACKETS: usize = 64;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/filters.txt")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn packets_go_where_click_sends_them() {
    if let Some(folder) = std::env::var_os("RECORD_FROM") {
        let folder = std::env::split_paths(&folder).next().expect("a folder");
        let sets = std::env::var("SETS").ok().and_then(|sets| sets.parse().ok());
        fs::write(file(), record(&folder.join("click"), sets.unwrap_or(SETS))).unwrap();
    }
    let text = fs::read_to_string(file()).unwrap();
    let (packets, sets) = text.split_once("\n\n").expect("packets, then rules");
    let packets: Vec<_> = packets.lines().map(unhex).collect();
    let (plan, mut bench) = (plan(), Bench::new());
    let lines: Vec<_> = sets.lines().collect();
    let (sets, rest) = lines.as_chunks::<2>();
    assert!(sets.len() > 300 && rest.is_empty());
    for [outputs, texts] in sets {
        let texts: Vec<_> = texts.split(", ").map(String::from).collect();
        let rules = rules(&plan, &texts);
        for limit in [1, 64] {
            let answers = bench.decide(&rules, &packets, limit);
            let shown = |answer: &u32| char::from_digit(*answer, 10).unwrap_or('x');
            let shown: String = answers.iter().map(shown).collect();
            assert_eq!(shown, *outputs, "{texts:?}");
        }
    }
}

fn record(click: &Path, sets: u64) -> String {
    let mut random = Random::new(0);
    let mut packets: Vec<_> = (0..PACKETS).map(|_| random.short_packet()).collect();
    for (number, packet) in packets.iter_mut().enumerate() {
        // The number is how a packet is known again.
        packet[6..12].copy_from_slice(&[0, 0, 0, 0, 0, number as u8]);
    }
    let mut text = String::new();
    for packet in &packets {
        let _ = writeln!(text, "{}", hex(packet));
    }
    text.push('\n');
    for set in 0..sets {
        let rules = Random::new(1000 + set).rules().join(", ");
        if let Some(outputs) = ask(click, &rules, &packets) {
            let _ = writeln!(text, "{outputs}\n{rules}");
        }
    }
    text
}

/// Returns Click's outputs of packets; `None` where it fails an assertion of its own.
fn ask(click: &Path, rules: &str, packets: &[Vec<u8>]) -> Option<String> {
    let capture = std::env::temp_dir().join(format!("filters-{}.pcap", std::process::id()));
    let mut bytes = Vec::new();
    for field in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(field.to_ne_bytes());
    }
    for packet in packets {
        for field in [0, 0, packet.len() as u32, packet.len() as u32] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(packet);
    }
    fs::write(&capture, bytes).unwrap();
    let config = format!(
        "FromDump({}, STOP true) -> MarkIPHeader(14) -> f :: IPFilter({rules});
         f -> Print(0, 12) -> Discard; f [1] -> Print(1, 12) -> Discard;
         f [2] -> Print(2, 12) -> Discard;",
        capture.display()
    );
    let output = Command::new(click).args(["-e", &config]).output().unwrap();
    if !output.status.success() {
        return None;
    }
    let mut outputs = vec!['x'; packets.len()];
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        // `1:   60 | 00010203 04050000 00000007`
        if let Some((label, bytes)) = line.split_once('|')
            && let Some(number) = bytes.trim().get(24..26)
        {
            let number = usize::from_str_radix(number, 16).unwrap();
            outputs[number] = label.chars().next().unwrap();
        }
    }
    let _ = fs::remove_file(capture);
    Some(outputs.into_iter().collect())
}
