//! Names that configurations written for other frameworks have for ports, such
//! as DPDK's numbers.
//!
//! The map is in the [context](crate::Context) ports are opened with, so all readers of a
//! configuration share it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{error::UriError, uri::PortUri};

/// Ports by other names. Clones are equal.
#[derive(Debug, Clone, Default)]
pub struct Devices(Arc<BTreeMap<String, PortUri>>);

impl Devices {
    /// The port a name stands for.
    pub fn get(&self, name: &str) -> Option<&PortUri> {
        self.0.get(name)
    }
}

impl FromIterator<(String, PortUri)> for Devices {
    fn from_iter<I: IntoIterator<Item = (String, PortUri)>>(pairs: I) -> Devices {
        Devices(Arc::new(pairs.into_iter().collect()))
    }
}

/// Reads `NAME=PORT`, as in `0=xdp:eth0`.
///
/// # Errors
///
/// When it is none, or the port's name is wrong.
pub fn parse_device(text: &str) -> Result<(String, PortUri), UriError> {
    let missing = || UriError::Device { text: text.into() };
    let (name, port) = text.split_once('=').ok_or_else(missing)?;
    if name.is_empty() {
        return Err(missing());
    }
    Ok((name.into(), port.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_port() {
        let (name, port) = parse_device("0000:03:00.0=xdp:eth0?queues=2").unwrap();
        assert_eq!(
            (name.as_str(), port.to_string().as_str()),
            ("0000:03:00.0", "xdp:eth0?queues=2")
        );
        let devices: Devices = [(name, port)].into_iter().collect();
        assert!(devices.get("0000:03:00.0").is_some() && devices.get("0").is_none());
        for wrong in ["0", "=xdp:eth0", "0=eth0", ""] {
            assert!(parse_device(wrong).is_err(), "{wrong}");
        }
        let error = parse_device("xdp:eth0").unwrap_err().to_string();
        assert_eq!(error, "\"xdp:eth0\" is not NAME=PORT, as in 0=xdp:eth0");
    }
}
