//! Messages that Open vSwitch's client and switch sent to each other.
use linerate_flow::wire::{Message, Version};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

#[test]
fn adhoc() {
    let path = std::env::var("GOLDEN").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let mut head = "";
    let (mut ok, mut bad, mut differ) = (0, 0, 0);
    for line in text.lines() {
        if line.starts_with('#') {
            head = line;
            continue;
        }
        let bytes = hex(line.split(' ').nth(1).unwrap());
        match Message::decode(&bytes) {
            Err(fault) => {
                bad += 1;
                println!("FAULT {fault:?}\n  {head}\n  {line:.300}");
            }
            Ok((version, xid, message)) => match message.encode(version, xid) {
                Err(error) => {
                    bad += 1;
                    println!("UNENCODABLE {error}\n  {head}\n  {line:.300}\n  {message:?}");
                }
                Ok(again) if again == bytes => ok += 1,
                Ok(again) => {
                    let second = Message::decode(&again);
                    let same = second == Ok((version, xid, message.clone()));
                    differ += 1;
                    if !same || std::env::var("ALL").is_ok() {
                        let mut t = String::new();
                        again.iter().for_each(|b| t.push_str(&format!("{b:02x}")));
                        println!(
                            "DIFFER same={same}\n  {head}\n  {line:.300}\n  . {t:.300}\n  {message:?}"
                        );
                    }
                }
            },
        }
    }
    println!("ok {ok} bad {bad} differ {differ}");
    let _ = Version::V10;
}
