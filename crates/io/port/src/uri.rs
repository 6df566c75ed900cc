//! URIs of ports: `driver:name?option=value&option`.
//!
//! Parsing splits the text and nothing more; the meaning of the options is the driver's (see
//! [`Options`](crate::Options)).

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use percent_encoding::percent_decode_str;

use crate::error::UriError;

/// A parsed port name.
///
/// ```
/// let uri: linerate_port::PortUri = "xdp:eth0?queues=2&zerocopy".parse().unwrap();
/// assert_eq!((uri.driver(), uri.name()), ("xdp", "eth0"));
/// assert_eq!(uri.to_string(), "xdp:eth0?queues=2&zerocopy");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortUri {
    driver: String,
    name: String,
    options: Vec<(String, Option<String>)>,
    shown: DisplayName,
}

/// The name of a port in messages, where it is not the URI. It does not count in comparisons of ports.
#[derive(Debug, Clone, Default)]
struct DisplayName(Option<String>);

impl PartialEq for DisplayName {
    fn eq(&self, _: &DisplayName) -> bool {
        true
    }
}

impl Eq for DisplayName {}

impl Hash for DisplayName {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PortUri {
    /// A name made of its parts, with any characters in them.
    pub fn new(driver: &str, name: &str) -> PortUri {
        PortUri {
            driver: driver.into(),
            name: name.into(),
            options: Vec::new(),
            shown: DisplayName::default(),
        }
    }

    /// Returns the port with the name that messages have for it: the text of the command line, which is a
    /// file or an interface, or the port without options that a program has added.
    #[must_use]
    pub fn shown_as(self, text: impl Into<String>) -> PortUri {
        PortUri { shown: DisplayName(Some(text.into())), ..self }
    }

    /// Adds an option.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> PortUri {
        self.options.push((key.into(), Some(value.to_string())));
        self
    }

    /// The options of this name for another driver and object.
    #[must_use]
    pub fn named(&self, driver: &str, name: &str) -> PortUri {
        PortUri { options: self.options.clone(), ..PortUri::new(driver, name) }
    }

    /// Removes an option.
    #[must_use]
    pub fn without(mut self, key: &str) -> PortUri {
        self.options.retain(|(known, _)| known != key);
        self
    }

    /// The part before the colon: which driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The part between the colon and the question mark: which interface,
    /// ring or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options as they are written, with their values where they have some.
    pub fn written(&self) -> &[(String, Option<String>)] {
        &self.options
    }
}

impl FromStr for PortUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<PortUri, UriError> {
        let syntax = |reason| UriError::Syntax { uri: text.into(), reason };
        let (driver, rest) = text
            .split_once(':')
            .ok_or_else(|| syntax("expected driver:name, as in packet:eth0 or null:"))?;
        if driver.is_empty() || !driver.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(syntax("the driver name before the colon is letters and digits"));
        }
        // A file name may hold a question mark only in its escaped form.
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let name =
            unescape(name).ok_or_else(|| syntax("a % must be followed by two hex digits"))?;
        if name.contains('\0') {
            return Err(syntax("a name cannot hold a zero byte"));
        }
        let mut options: Vec<(String, Option<String>)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (
                    key,
                    Some(
                        unescape(value)
                            .ok_or_else(|| syntax("a % must be followed by two hex digits"))?,
                    ),
                ),
                None => (part, None),
            };
            let well_formed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            if key.is_empty() || !key.bytes().all(well_formed) {
                return Err(syntax("an option is key or key=value, separated by &"));
            }
            if options.iter().any(|(known, _)| known == key) {
                return Err(UriError::Repeated { uri: text.into(), option: key.into() });
            }
            options.push((key.into(), value));
        }
        Ok(PortUri { options, ..PortUri::new(driver, &name) })
    }
}

impl fmt::Display for PortUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shown) = &self.shown.0 {
            return f.write_str(shown);
        }
        let name = self.name.replace('%', "%25").replace('?', "%3F");
        write!(f, "{}:{name}", self.driver)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            f.write_str(key)?;
            if let Some(value) = value {
                write!(f, "={}", value.replace('%', "%25").replace('&', "%26"))?;
            }
        }
        Ok(())
    }
}

/// `%XX` to the character of that code; `None` for a malformed escape, which the
/// library would leave as it is, or one that makes invalid UTF-8.
fn unescape(text: &str) -> Option<String> {
    let well_formed = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(well_formed) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_called_as_it_was_written() {
        let added = PortUri::new("pcap", "/tmp/a.pcap").with("short", "keep");
        let shown = added.clone().shown_as("/tmp/a.pcap").with("loop", 2);
        assert_eq!(shown.to_string(), "/tmp/a.pcap");
        assert_eq!(added.to_string(), "pcap:/tmp/a.pcap?short=keep");
        assert_eq!(shown, added.with("loop", 2));
        assert_eq!(shown.named("pcap", "b").to_string(), "pcap:b?short=keep&loop=2");
    }

    fn parse(text: &str) -> Result<PortUri, UriError> {
        text.parse()
    }

    #[test]
    fn splits_driver_name_and_options() {
        let uri = parse("pcap:/tmp/a%3Fb.pcap?loop=3&rate=1M&fast").unwrap();
        assert_eq!((uri.driver(), uri.name()), ("pcap", "/tmp/a?b.pcap"));
        let value = |text: &str| Some(text.to_owned());
        let options =
            [("loop".into(), value("3")), ("rate".into(), value("1M")), ("fast".into(), None)];
        assert_eq!(uri.written(), options);
        assert_eq!(uri.to_string(), "pcap:/tmp/a%3Fb.pcap?loop=3&rate=1M&fast");
    }

    #[test]
    fn parts_survive_printing_and_parsing() {
        let uri = PortUri::new("pcap", "a?b%c&d=e").with("out", "x&y=z%").with("n", 5);
        assert_eq!(uri.to_string().parse(), Ok(uri));
    }

    #[test]
    fn a_colon_belongs_to_the_name() {
        assert_eq!(parse("packet:eth0:1").unwrap().name(), "eth0:1");
        assert_eq!(parse("null:").unwrap().name(), "");
    }

    #[test]
    fn refuses_malformed_names() {
        for text in ["", "eth0", ":x", "a b:x", "null:?=3", "null:?a&a"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for name in ["%", "%4", "%zz", "a%%41", "%+1", "%4\u{e4}", "%ff"] {
            assert!(parse(&format!("pcap:{name}")).is_err(), "{name}");
        }
    }
}
