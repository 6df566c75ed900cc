//! Counts packets and bytes by the first byte of the destination address, until its server ends:
//!
//!   cargo run -p linerate-client --example count -- /run/cluster.sock NAME

use std::{collections::BTreeMap, env, process::ExitCode};

use linerate_client::{ClientError, Consumer};

/// Offset of the destination in an IPv4 header, behind Ethernet's.
const DESTINATION: usize = 14 + 16;

pub(crate) fn count(address: &str, name: &str) -> Result<(), ClientError> {
    let mut consumer = Consumer::attach(address, name)?;
    let mut counts: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    let ended = loop {
        if let Err(error) = consumer.wait(None) {
            break error;
        }
        while consumer.receive()? > 0 {
            for packet in consumer.packets() {
                let network = packet.get(DESTINATION).copied().unwrap_or_default();
                let (packets, bytes) = counts.entry(network).or_default();
                *packets += 1;
                *bytes += packet.len() as u64;
            }
        }
    };
    for (network, (packets, bytes)) in &counts {
        println!("{network}.0.0.0/8: {packets} packets, {bytes} bytes");
    }
    println!("{} lost", consumer.figures().lost_full);
    if ended.is_end() { Ok(()) } else { Err(ended) }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let [address, name] = &words[..] else {
        eprintln!("count SOCKET NAME");
        return ExitCode::from(2);
    };
    count(address, name).map_or_else(
        |error| {
            eprintln!("count: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
