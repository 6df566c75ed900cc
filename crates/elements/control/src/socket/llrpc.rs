//! LLRPCs: calls by number of Click's older clients, each of which stands for a handler.
//!
//! A number encodes the bytes of the call, their direction, and whether there are others behind
//! pointers; only such calls can be made over a socket. The bytes are a number in the byte order of
//! the machine.

use std::net::Ipv4Addr;

use linerate_graph::{Access, PlanElement};

/// Bits of a call's number: data comes back, data goes along, and it points to
/// nothing else.
const OUT: u32 = 0x4000_0000;
const IN: u32 = 0x8000_0000;
const FLAT: u32 = 0x4000;

/// A call that is known by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// The bytes that go along.
    pub(super) sent: usize,
    /// Whether as many come back.
    pub(super) answers: bool,
    number: u32,
}

/// Handler call for an LLRPC.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read(&'static str),
    Write(&'static str, String),
    /// Reads the rewritten flow.
    Rewritten(&'static str, String),
    /// Reads the mapped address.
    Mapped(&'static str, String),
}

impl Call {
    /// `None` where it cannot be made over a socket.
    pub(super) fn new(bits: u32) -> Option<Call> {
        let size = (bits >> 16 & 0xfff) as usize;
        let possible = size > 0 && bits & (IN | OUT) != 0 && bits & FLAT != 0;
        let sent = if bits & IN != 0 { size } else { 0 };
        possible.then_some(Call { sent, answers: bits & OUT != 0, number: bits })
    }

    /// The handler of an element that it stands for; `None` where that has no
    /// such call or `data` is not for it.
    pub(super) fn action(&self, element: &PlanElement, data: &[u8]) -> Option<Action> {
        let class = element.class;
        let outputs = i32::try_from(element.outputs.len()).unwrap_or(i32::MAX);
        let given = data.try_into().map(i32::from_ne_bytes);
        let switch = class
            .handlers
            .iter()
            .any(|handler| handler.name == "switch" && handler.access == Access::ReadWrite);
        Some(match (self.number, class.name, given) {
            (0xc004_c001, "Counter", Ok(0)) => Action::Read("rate"),
            (0xc004_c003, "Counter", Ok(0)) => Action::Read("count"),
            (0xc004_c003, "Counter", Ok(1)) => Action::Read("byte_count"),
            (0x4004_c005, ..) if switch => Action::Read("switch"),
            (0x8004_4006, _, Ok(output)) if switch && output < outputs => {
                Action::Write("switch", output.to_string())
            }
            (0xc004_4007, "AnonymizeIPAddr", Ok(address)) => {
                Action::Mapped("map", Ipv4Addr::from(address.to_ne_bytes()).to_string())
            }
            (0xc00c_4008, ..) => {
                let names = ["tcp_lookup", "lookup"];
                let has = |name: &&str| class.handlers.iter().any(|known| known.name == *name);
                Action::Rewritten(names.into_iter().find(has)?, flow_text(data)?)
            }
            _ => return None,
        })
    }
}

/// The bytes of a flow as its handlers have it: addresses, then ports, in the order of the
/// network.
fn flow_text(data: &[u8]) -> Option<String> {
    let address =
        |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(data.get(at..at + 4)?).ok()?));
    let port = |at: usize| Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?));
    Some(format!("{} {} {} {}", address(0)?, port(8)?, address(4)?, port(10)?))
}

/// The other way round; `None` for no flow.
pub(super) fn flow_data(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [source, source_port, destination, destination_port] = words[..] else { return None };
    let address = |word: &str| Some(word.parse::<Ipv4Addr>().ok()?.octets());
    let port = |word: &str| Some(word.parse::<u16>().ok()?.to_be_bytes());
    let (addresses, ports) =
        ([address(source)?, address(destination)?], [port(source_port)?, port(destination_port)?]);
    Some([addresses.concat(), ports.concat()].concat())
}

/// Converts the address in a handler's answer to network order.
pub(super) fn address_data(text: &str) -> Option<[u8; 4]> {
    Some(text.trim().parse::<Ipv4Addr>().ok()?.octets())
}

/// Returns the answer of a read handler as data. Fractions and higher bits are cut off.
pub(super) fn data(answer: &str) -> Option<[u8; 4]> {
    let whole = answer.trim().split('.').next()?;
    Some((whole.parse::<i64>().ok()? as u32).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_apart() {
        let both = Call { sent: 4, answers: true, number: 0xc004_c003 };
        assert_eq!(Call::new(0xc004_c003), Some(both));
        let set = Call { sent: 4, answers: false, number: 0x8004_4006 };
        assert_eq!(Call::new(0x8004_4006), Some(set));
        // No bytes, no direction, or pointers.
        for impossible in [0, 0x4000_c005, 0x2004_c005, 0x4004_8002] {
            assert_eq!(Call::new(impossible), None, "{impossible:x}");
        }
    }

    #[test]
    fn flows_are_bytes() {
        let bytes = [10, 0, 0, 1, 198, 18, 0, 2, 0x04, 0x00, 0, 80];
        assert_eq!(flow_text(&bytes).unwrap(), "10.0.0.1 1024 198.18.0.2 80");
        assert_eq!(flow_data("10.0.0.1 1024 198.18.0.2 80\n").unwrap(), bytes);
        assert_eq!((flow_text(&bytes[1..]), flow_data("")), (None, None));
    }

    #[test]
    fn addresses_are_bytes() {
        assert_eq!(address_data("10.0.0.1\n"), Some([10, 0, 0, 1]));
        assert_eq!(address_data("10.0.0"), None);
    }

    #[test]
    fn answers_are_numbers() {
        assert_eq!(data("7\n"), Some(7u32.to_ne_bytes()));
        assert_eq!(data("-1"), Some(u32::MAX.to_ne_bytes()));
        assert_eq!(data("12.75"), Some(12u32.to_ne_bytes()));
        assert_eq!(data("true"), None);
    }
}
