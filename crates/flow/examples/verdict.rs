use linerate_flow::wire::Message;
use std::io::BufRead;
fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let b: Vec<u8> = (0..line.len() / 2)
            .map(|i| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        match Message::decode(&b) {
            Ok((v, x, m)) => match m.encode(v, x) {
                Ok(again) => {
                    let hex: String = again.iter().map(|b| format!("{b:02x}")).collect();
                    println!("OK {hex}");
                }
                Err(e) => println!("UNENC {e}"),
            },
            Err(f) => {
                let v = linerate_flow::wire::Version::from_number(b.first().copied().unwrap_or(0))
                    .unwrap_or(linerate_flow::wire::Version::V13);
                println!("{f:?} {:?}", f.code(v));
            }
        }
    }
}
