//! Records of captures as both programs write them, read without help of either.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail};

/// The number of Ethernet among link types (pcap-linktype(7)).
const ETHERNET: u32 = 1;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// When it was captured, in microseconds: tcpdump writes no more of the time.
    time: u64,
    /// Its length on its link.
    length: u32,
    bytes: Vec<u8>,
}

/// Reads a capture of Ethernet frames in the older format, of this machine's byte order (pcap
/// draft, 4 and 5). Nothing for another link type.
pub(super) fn read(file: &[u8]) -> Result<Option<Vec<Record>>> {
    let Some((header, mut rest)) = file.split_at_checked(24) else {
        bail!("a file of {} bytes is no capture", file.len());
    };
    let in_a_second = match word(header, 0) {
        0xa1b2_c3d4 => 1_000_000,
        0xa1b2_3c4d => 1_000_000_000,
        magic => bail!("{magic:#x} is not how a capture begins"),
    };
    if word(header, 20) & 0xffff != ETHERNET {
        return Ok(None);
    }
    let mut records = Vec::new();
    while !rest.is_empty() {
        let record = rest.split_at_checked(16);
        let parts = record.and_then(|(head, tail)| {
            let (bytes, tail) = tail.split_at_checked(word(head, 8) as usize)?;
            Some((head, bytes, tail))
        });
        let Some((head, bytes, tail)) = parts else { bail!("a record is cut off") };
        let fraction = u64::from(word(head, 4)) / (in_a_second / 1_000_000);
        let time = u64::from(word(head, 0)) * 1_000_000 + fraction;
        records.push(Record { time, length: word(head, 12), bytes: bytes.to_vec() });
        rest = tail;
    }
    Ok(Some(records))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The numbers, from 1 on, of the packets that were chosen from `all`; nothing when something was
/// chosen that is not there, or not in its place.
pub(super) fn numbers(chosen: &[Record], all: &[Record]) -> Option<Vec<usize>> {
    let mut rest = (1..).zip(all);
    chosen.iter().map(|one| rest.find(|(_, record)| *record == one).map(|(n, _)| n)).collect()
}

/// Addresses and ports of a capture that expressions may ask for: the first of each that there is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subjects {
    ether: Option<String>,
    ip: Option<Ipv4Addr>,
    ip6: Option<Ipv6Addr>,
    port: Option<u16>,
}

impl Subjects {
    pub(super) fn from_records(records: &[Record]) -> Subjects {
        let mut subjects = Subjects::default();
        for record in records {
            subjects.look_at(&record.bytes);
        }
        subjects
    }

    fn look_at(&mut self, frame: &[u8]) {
        let Some((addresses, mut rest)) = frame.split_at_checked(12) else { return };
        self.ether.get_or_insert_with(|| {
            let text = addresses[6..].iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}:");
                text
            });
            text.trim_end_matches(':').to_owned()
        });
        while let [0x81 | 0x88 | 0x91, 0 | 0xa8, _, _, inside @ ..] = rest {
            rest = inside;
        }
        let (protocol, ports) = match rest {
            [0x08, 0x00, ip @ ..] if ip.len() >= 20 => {
                self.ip.get_or_insert(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]));
                (ip[9], ip.get(usize::from(ip[0] & 15) * 4..))
            }
            [0x86, 0xdd, ip @ ..] if ip.len() >= 40 => {
                if let Some(address) = ip[8..].first_chunk::<16>() {
                    self.ip6.get_or_insert((*address).into());
                }
                (ip[6], ip.get(40..))
            }
            _ => return,
        };
        if let (6 | 17 | 132, Some([a, b, c, d, ..])) = (protocol, ports) {
            // A server has mostly the lower number.
            let ports = [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])];
            self.port.get_or_insert(ports[0].min(ports[1]));
        }
    }

    /// Fills these into an expression; `None` where one is missing.
    pub(super) fn fill(&self, expression: &str) -> Option<String> {
        let text = |subject: Option<&dyn ToString>| subject.map(ToString::to_string);
        let network = self.ip.map(|ip| {
            let [a, b, c, _] = ip.octets();
            format!("{a}.{b}.{c}.0/24")
        });
        // The longer name first.
        let subjects = [
            ("$ip6", text(self.ip6.as_ref().map(|ip6| ip6 as &dyn ToString))),
            ("$ip", text(self.ip.as_ref().map(|ip| ip as &dyn ToString))),
            ("$net", network),
            ("$ether", self.ether.clone()),
            ("$port", text(self.port.as_ref().map(|port| port as &dyn ToString))),
        ];
        let mut filled = expression.to_owned();
        for (name, subject) in subjects {
            if filled.contains(name) {
                filled = filled.replace(name, &subject?);
            }
        }
        Some(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64, bytes: &[u8]) -> Record {
        Record { time, length: bytes.len() as u32, bytes: bytes.to_vec() }
    }

    fn file(magic: u32, link: u32, fraction: u32) -> Vec<u8> {
        let words = [magic, 0x0004_0002, 0, 0, 65_535, link, 7, fraction, 2, 9];
        words.iter().flat_map(|word| word.to_ne_bytes()).chain([1, 2]).collect()
    }

    #[test]
    fn captures_are_read_to_the_microsecond() {
        let wanted = Record { time: 7_000_005, length: 9, bytes: vec![1, 2] };
        let of = |file: &[u8]| read(file).unwrap();
        assert_eq!(of(&file(0xa1b2_c3d4, 1, 5)), Some(vec![wanted.clone()]));
        assert_eq!(of(&file(0xa1b2_3c4d, 1, 5_999)), Some(vec![wanted]));
        assert_eq!(of(&file(0xa1b2_c3d4, 113, 5)), None);
        let whole = file(0xa1b2_c3d4, 1, 5);
        for length in [0, 23, 25, whole.len() - 1] {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_was_chosen_has_numbers() {
        let all = [record(1, &[1]), record(1, &[1]), record(2, &[1]), record(3, &[2])];
        assert_eq!(numbers(&all, &all), Some(vec![1, 2, 3, 4]));
        assert_eq!(numbers(&all[2..], &all), Some(vec![3, 4]));
        assert_eq!(numbers(&[all[3].clone(), all[2].clone()], &all), None);
        assert_eq!(numbers(&[record(1, &[2])], &all), None);
    }

    #[test]
    fn expressions_are_about_what_there_is() {
        let mut frame = vec![0; 12];
        (frame[6], frame[11]) = (2, 0xaf);
        let mut tagged = frame.clone();
        tagged.extend([0x81, 0, 0, 5, 0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0]);
        tagged.extend([10, 1, 2, 3, 10, 9, 9, 9, 0x30, 0x39, 0, 53]);
        let subjects =
            Subjects::from_records(&[record(0, &[1]), record(0, &frame), record(0, &tagged)]);
        let cases = [
            ("ip", Some("ip")),
            ("ether src $ether", Some("ether src 02:00:00:00:00:af")),
            ("vlan and host $ip or net $net", Some("vlan and host 10.1.2.3 or net 10.1.2.0/24")),
            ("port $port", Some("port 53")),
            ("host $ip6 and port $port", None),
        ];
        for (expression, filled) in cases {
            assert_eq!(subjects.fill(expression).as_deref(), filled, "{expression}");
        }
    }
}
