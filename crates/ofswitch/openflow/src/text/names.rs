//! Names of ports and tables.

use std::collections::HashMap;

use super::error::{Fail, Parsed};
use super::number;
use crate::wire::PortNumber;

/// The names a switch has for its ports and tables.
#[derive(Debug, Clone, Default)]
pub struct Names {
    ports: NameMap,
    tables: NameMap,
}

#[derive(Debug, Clone, Default)]
struct NameMap {
    numbers: HashMap<String, u32>,
    names: HashMap<u32, String>,
}

impl NameMap {
    /// Adds a name. A name of two numbers is none.
    fn add(&mut self, name: &str, number: u32) {
        if name.is_empty() {
            return;
        }
        match self.numbers.insert(name.to_owned(), number) {
            Some(other) if other != number => {
                self.names.remove(&other);
                self.numbers.remove(name);
            }
            _ => _ = self.names.insert(number, name.to_owned()),
        }
    }

    fn print(&self, number: u32, reserved: impl Fn(&str) -> bool) -> Option<String> {
        let name = self.names.get(&number)?;
        let plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        // Names that could be another word, or that would not be read as one word, are quoted.
        if starts && name.chars().all(plain) && !reserved(name) {
            return Some(name.clone());
        }
        let fits =
            !name.contains(['"', '\\', ',', '(', ')', '-']) && !name.contains(char::is_whitespace);
        fits.then(|| format!("\"{name}\""))
    }
}

/// Ports that are none.
const RESERVED: [(&str, PortNumber); 10] = [
    ("IN_PORT", PortNumber::IN_PORT),
    ("TABLE", PortNumber::TABLE),
    ("NORMAL", PortNumber::NORMAL),
    ("FLOOD", PortNumber::FLOOD),
    ("ALL", PortNumber::ALL),
    ("CONTROLLER", PortNumber::CONTROLLER),
    ("LOCAL", PortNumber::LOCAL),
    ("ANY", PortNumber::ANY),
    ("NONE", PortNumber::ANY),
    ("UNSET", PortNumber::UNSET),
];

impl Names {
    /// No names.
    #[must_use]
    pub fn new() -> Names {
        Names::default()
    }

    /// Gives a port a name.
    pub fn add_port(&mut self, name: &str, port: PortNumber) {
        self.ports.add(name, port.0);
    }

    /// Gives a table a name.
    pub fn add_table(&mut self, name: &str, table: u8) {
        self.tables.add(name, table.into());
    }

    /// A port's number: its number, its name, or that of a reserved one in any case.
    pub(super) fn port<'t>(&self, text: &'t str) -> Parsed<'t, PortNumber> {
        if let Some(name) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            let known = self.ports.numbers.get(name).copied().map(PortNumber);
            return known.ok_or_else(|| self.unknown_port(text));
        }
        if let Some(port) = number::integer(text) {
            return match port {
                0xff00..=0xffff => Ok(PortNumber::from_short(port as u16)),
                0..=0xffff_ffff => Ok(PortNumber(port as u32)),
                _ => Err(Fail::new(text, "numbers of ports are at most 4294967295")),
            };
        }
        let reserved = RESERVED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some(&(_, port)) = reserved {
            return Ok(port);
        }
        let known = self.ports.numbers.get(text).copied().map(PortNumber);
        known.ok_or_else(|| self.unknown_port(text))
    }

    fn unknown_port<'t>(&self, text: &'t str) -> Fail<'t> {
        let reserved = RESERVED.iter().map(|&(name, _)| name);
        Fail::unknown(text, "port", self.ports.numbers.keys().map(String::as_str).chain(reserved))
    }

    /// Returns true if it names a port.
    pub(super) fn is_port(&self, text: &str) -> bool {
        self.port(text).is_ok()
    }

    pub(super) fn print_port(&self, port: PortNumber) -> String {
        let reserved =
            |name: &str| RESERVED.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        self.ports.print(port.0, reserved).unwrap_or_else(|| port.to_string())
    }

    /// A table's number: its number or its name.
    pub(super) fn table<'t>(&self, text: &'t str) -> Parsed<'t, u8> {
        if number::integer(text).is_some() {
            return number::u8(text, "the number of a table");
        }
        let name = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let known = self.tables.numbers.get(name).map(|&table| table as u8);
        let names = self.tables.numbers.keys().map(String::as_str);
        known.ok_or_else(|| Fail::unknown(text, "table", names))
    }

    pub(super) fn print_table(&self, table: u8) -> String {
        self.tables.print(table.into(), |_| false).unwrap_or_else(|| table.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_names() {
        let mut names = Names::new();
        names.add_port("eth0", PortNumber(1));
        names.add_port("local", PortNumber(2));
        names.add_port("7", PortNumber(3));
        for (text, port) in [("eth0", 1), ("\"local\"", 2), ("\"7\"", 3), ("7", 7)] {
            assert_eq!(names.port(text).unwrap(), PortNumber(port));
        }
        for (text, port) in [("local", PortNumber::LOCAL), ("65534", PortNumber::LOCAL)] {
            assert_eq!(names.port(text).unwrap(), port);
        }
        assert_eq!(names.print_port(PortNumber(1)), "eth0");
        assert_eq!(names.print_port(PortNumber(2)), "\"local\"");
        assert_eq!(names.print_port(PortNumber(9)), "9");
        let error = names.port("eth1").unwrap_err().within("eth1");
        assert_eq!(error.help(), Some("did you mean \"eth0\"?"));
        // A name of two numbers is none.
        names.add_port("eth0", PortNumber(5));
        assert!(names.port("eth0").is_err());
        assert_eq!(names.print_port(PortNumber(1)), "1");
    }
}
