//! Captures in the place of devices: the text of a configuration with them, its inputs, and its
//! outputs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::devices::{self, Replacement};
use super::text::{self, Declaration};
use super::traffic::{self, Addresses};

/// A configuration whose devices are captures, in the folder it runs in.
#[derive(Debug)]
pub(crate) struct OnCaptures {
    /// The configuration, which does not end by itself: see [`end`].
    pub(crate) text: String,
    /// Number of captures it reads.
    pub(crate) inputs: usize,
    /// Number of captures it writes.
    pub(crate) outputs: usize,
}

/// Puts captures in the place of devices, and the text of `other` in that of other elements.
pub(crate) fn substitute(
    flat: &str,
    declarations: &[Declaration],
    other: impl Fn(&Declaration) -> Option<String>,
) -> OnCaptures {
    let mut inputs: Vec<String> = Vec::new();
    let mut outputs = 0;
    let text =
        text::substitute(flat, declarations, |declaration| match devices::stand(declaration) {
            Replacement::Itself => other(declaration),
            Replacement::Input(name) => {
                let number = inputs.iter().position(|input| *input == name);
                let number = number.unwrap_or_else(|| {
                    inputs.push(name);
                    inputs.len() - 1
                });
                Some(format!("FromDump({}, TIMING true, STOP false)", input(number)))
            }
            Replacement::Output => {
                outputs += 1;
                Some(format!("ToDump({}, SNAPLEN 0, UNBUFFERED true)", output(outputs - 1)))
            }
        });
    OnCaptures { text, inputs: inputs.len(), outputs }
}

impl OnCaptures {
    /// Writes the captures that are read, of packets among these hosts.
    pub(crate) fn write_inputs(&self, folder: &Path, addresses: &Addresses) -> Result<()> {
        for number in 0..self.inputs {
            let path = folder.join(input(number));
            traffic::write(&path, addresses, number as u64)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The end of a run: late enough for all captures and for packets sent after them, and when no
/// source that sends every so many milliseconds is due, since the order of the two is undefined.
/// These instructions come before.
pub(crate) fn end(last: &[String]) -> String {
    let last: String = last.iter().map(|instruction| format!("{instruction}, ")).collect();
    format!("conformance_end :: Script(TYPE ACTIVE, wait 119.3737s, {last}stop);\n")
}

fn input(number: usize) -> String {
    format!("conformance-in-{number}.pcap")
}

/// The name of a capture that is written.
pub(crate) fn output(number: usize) -> String {
    format!("conformance-out-{number}.pcap")
}

/// The packets of a capture in this machine's byte order.
pub(crate) fn packets_in(path: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = fs::read(path)?;
    let mut rest = bytes.get(24..).context("it has no header")?;
    let mut packets = Vec::new();
    while let Some(header) = rest.get(..16) {
        let length = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let packet = rest.get(16..16 + length).context("its last packet is cut short")?;
        packets.push(packet.to_vec());
        rest = &rest[16 + length..];
    }
    Ok(packets)
}

/// Returns the first difference between the packets that two have sent.
pub(crate) fn packet_difference(who: [&str; 2], sent: [&[Vec<u8>]; 2]) -> Option<String> {
    let [one, other] = sent;
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    let at = at.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())))?;
    let [counts, packets] = [
        [0, 1].map(|side| format!("{} {}", who[side], sent[side].len())),
        [0, 1].map(|side| {
            let packet = sent[side].get(at).map_or("none".to_owned(), |packet| hex(packet));
            format!("{} {packet}", who[side])
        }),
    ];
    Some(format!("packets sent: {}; packet {at}: {}", counts.join(", "), packets.join(", ")))
}

/// The beginning of a packet, for comparing by eye.
fn hex(packet: &[u8]) -> String {
    let mut text = format!("({})", packet.len());
    for byte in &packet[..packet.len().min(48)] {
        let _ = write!(text, " {byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_captures_and_others_what_is_said() {
        let flat = "a :: FromDevice(x); b :: ToDevice(y); c :: FromPort(\"null:\"); d :: Queue; \
                    e :: FromHost(x); a -> d -> b;";
        let queue = |one: &Declaration| (one.class == "Queue").then(|| "Queue(7)".to_owned());
        let found = substitute(flat, &text::declarations(flat), queue);
        assert_eq!((found.inputs, found.outputs), (2, 1));
        assert!(found.text.contains("a :: FromDump(conformance-in-0.pcap, TIMING true"));
        assert!(found.text.contains("c :: FromDump(conformance-in-1.pcap, TIMING true"));
        assert!(found.text.contains("e :: FromDump(conformance-in-0.pcap, TIMING true"));
        assert!(found.text.contains("b :: ToDump(conformance-out-0.pcap"));
        assert!(found.text.contains("d :: Queue(7);"));
    }
}
