//! Source of facts about the machine: files, of this machine or of a test's.

use std::{fs, io::Read, path::Path};

/// Longest file taken; `/proc/cpuinfo` of the largest machines is about 2 MiB.
const LIMIT: u64 = 8 << 20;

/// Files with facts. Any may be missing: containers hide them, other
/// processors and kernels never had them.
pub(super) trait Source {
    /// A file's text, or `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a directory, sorted; empty if it cannot be read.
    fn list(&self, path: &str) -> Vec<String>;

    /// A file's text without white space around it; `None` also if that is
    /// nothing.
    fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A file's text as a number.
    fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }
}

/// The files of this machine.
#[derive(Debug)]
pub(super) struct Live;

impl Source for Live {
    fn read(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(Path::new(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// The value of `key` in lines of the form `key: value`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// A size as the kernel writes it: a number and `B`, `K`, `kB`, `M` or `G`.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "K" | "kB" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The choice in brackets of a setting that lists them all:
/// `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice.trim().to_owned())
}

/// A size for people: `1 MiB`, `1.5 GiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return format!("{bytes} bytes"),
        1024..0x10_0000 => (1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1u64 << 30, "GiB"),
    };
    // One decimal, cut: a limit must not read larger than it is.
    let tenths = (u128::from(bytes) * 10 / u128::from(unit)) as u64;
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The files of a machine that a test describes.
    #[derive(Debug, Default)]
    pub(in crate::machine) struct Fixture(BTreeMap<&'static str, String>);

    impl Fixture {
        pub(in crate::machine) fn new(files: &[(&'static str, &str)]) -> Fixture {
            Fixture(files.iter().map(|&(path, text)| (path, text.to_owned())).collect())
        }
    }

    impl Source for Fixture {
        fn read(&self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }

        fn list(&self, path: &str) -> Vec<String> {
            let mut names: Vec<String> = self
                .0
                .keys()
                .filter_map(|file| file.strip_prefix(path)?.strip_prefix('/')?.split('/').next())
                .map(str::to_owned)
                .collect();
            names.dedup();
            names
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("48K", Some(49_152)),
            ("24684092 kB", Some(25_276_510_208)),
            ("1024", Some(1024)),
            ("2 M", Some(2 << 20)),
            ("18446744073709551615K", None),
            ("K", None),
            ("", None),
            ("3 parsecs", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        for (bytes, text) in [
            (17, "17 bytes"),
            (49_152, "48 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 30) - 1, "1023.9 MiB"),
            (25_276_510_208, "23.5 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn settings_and_fields() {
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(chosen("]["), None);
        assert_eq!(field("a b\t: 1\nc:2:3\n", "c"), Some("2:3"));
        assert_eq!(field("a b\t: 1\nc:2:3\n", "a b"), Some("1"));
        assert_eq!(field("a", "a"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            size(&text);
            chosen(&text);
            field(&text, "a");
        }
    }
}
