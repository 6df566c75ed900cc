//! Programs and libraries with a libpcap inside of them, which was linked when they were made: no
//! other library takes its place.
//!
//! A text that only libpcap has tells its version. A program that asks the loader for libpcap names
//! its file, and may say anything of its version.

use std::{fs::File, io::Read, path::Path};

/// Beginning of libpcap's text about its version.
const VERSION: &[u8] = b"libpcap version ";
/// A name that every program linked with libpcap contains.
const ASKED_FOR: &[u8] = b"libpcap.so";
/// First bytes of programs and libraries.
const ELF: &[u8] = b"\x7fELF";
/// Bytes that are looked at at once.
const PIECE: usize = 1 << 20;

/// Returns true if there is a libpcap in a file. A file that cannot be read counts as without.
pub(super) fn is_inside(file: &Path) -> bool {
    File::open(file).is_ok_and(|file| has_libpcap(file, PIECE))
}

fn has_libpcap(mut from: impl Read, piece: usize) -> bool {
    let overlap = VERSION.len().max(ASKED_FOR.len()) - 1;
    let (mut bytes, mut begins, mut found) = (Vec::new(), true, false);
    loop {
        let kept = bytes.len();
        if (&mut from).take(piece as u64).read_to_end(&mut bytes).is_err() {
            return false;
        }
        if bytes.len() == kept {
            return found;
        }
        if std::mem::take(&mut begins) && !bytes.starts_with(ELF) {
            return false;
        }
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        if has(ASKED_FOR) {
            return false;
        }
        found |= has(VERSION);
        bytes.drain(..bytes.len().saturating_sub(overlap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_libpcap_is_told_from_a_program_that_asks_for_one() {
        let file = |texts: &[&[u8]]| [ELF, &[0; 50], &texts.concat(), &[7; 30]].concat();
        for (bytes, expected) in [
            (file(&[VERSION, b"1.10.4"]), true),
            (file(&[VERSION, b"1.10.4", b"libpcap.so.0.8"]), false),
            (file(&[b"libpcap.so.1", VERSION]), false),
            (file(&[b"libpcap"]), false),
            (VERSION.to_vec(), false),
            (Vec::new(), false),
        ] {
            // Wherever one piece ends and the next begins.
            for piece in [4, 5, 17, 60, PIECE] {
                assert_eq!(has_libpcap(&bytes[..], piece), expected, "{bytes:?} by {piece}");
            }
        }
    }
}
