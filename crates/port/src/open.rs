//! Opening of ports by their names.

use linerate_host::closest;

use crate::{
    af_packet, carrier,
    driver::Driver,
    error::{OpenError, UriError},
    filtered::Filtered,
    kernel::OpenErrors,
    memif, null, pcap,
    port::{Context, Port},
    ring, tap,
    uri::PortUri,
    vhost, xdp,
};

/// All drivers.
pub const DRIVERS: &[Driver] = &[
    null::DRIVER,
    ring::DRIVER,
    pcap::DRIVER,
    xdp::DRIVER,
    af_packet::DRIVER,
    tap::TAP,
    tap::TUN,
    memif::DRIVER,
    vhost::DRIVER,
];

/// Opens a port.
///
/// # Errors
///
/// When the name is wrong or the port cannot be had; the error names the next step.
pub fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let driver = driver(uri)?;
    if driver.name != null::DRIVER.name {
        // Its packets stay in the buffers that it gives back.
        context.arena.forget_template();
    }
    let mut port = (driver.open)(uri, context)?;
    if let Some(filter) = &context.filter {
        // Packets that a capture cut, or the port itself; all others have packets as they are.
        let cuts = uri
            .written()
            .iter()
            .any(|(key, value)| key == "long" && value.as_deref() == Some("cut"));
        let may_be_cut = cuts || uri.driver() == pcap::DRIVER.name;
        for queue in &mut port.queues {
            let receive = queue.receive.take();
            queue.receive = receive.map(|side| Filtered::over(side, filter, may_be_cut));
        }
    }
    if let (None, Some(interface)) = (&port.info.link, &port.info.interface) {
        let link = context.link.clone().unwrap_or_default();
        let moves = [tap::TAP.name, tap::TUN.name].contains(&uri.driver());
        carrier::watch(interface, &link, moves);
        port.info.link = Some(link);
    }
    Ok(port)
}

/// Looks whether a port can be there at all, before memory is made for it: its
/// driver is known, and so is the interface it is on, where it needs one.
///
/// # Errors
///
/// As [`open`] would say.
pub fn probe(uri: &PortUri) -> Result<(), OpenError> {
    if driver(uri)?.interface && !af_packet::is_any(uri) {
        // Looking takes no privileges.
        OpenErrors::with_remedy(uri, String::new()).find(uri.name())?;
    }
    Ok(())
}

/// Packets that a port may have at a time beyond those that any has: an arena for it needs room for them.
pub fn packets_kept(uri: &PortUri) -> usize {
    if uri.driver() == xdp::DRIVER.name { xdp::packets_kept(uri) } else { 0 }
}

fn driver(uri: &PortUri) -> Result<&'static Driver, OpenError> {
    DRIVERS.iter().find(|driver| driver.name == uri.driver()).ok_or_else(|| {
        let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
        UriError::UnknownDriver {
            uri: uri.to_string(),
            driver: uri.driver().into(),
            known: names.join(", "),
            suggestion: closest(uri.driver(), names.iter().copied())
                .map(|meant| format!("; did you mean {meant}?"))
                .unwrap_or_default(),
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    #[test]
    fn an_unknown_driver_is_named_with_the_known_ones() {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let error = open(&"nul:".parse().unwrap(), &context).unwrap_err().to_string();
        assert!(error.contains("\"nul\"") && error.contains("null, ring"), "{error}");
        assert!(error.ends_with("; did you mean null?"), "{error}");
        assert_eq!(probe(&"nul:".parse().unwrap()).unwrap_err().to_string(), error);
    }

    #[test]
    fn a_missing_interface_is_known_without_memory() {
        for missing in ["packet:nonesuch0", "xdp:nonesuch0"] {
            let error = probe(&missing.parse().unwrap()).unwrap_err();
            assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
        }
        for there in ["packet:lo", "ring:x", "tap:nonesuch0", "pcap:nonesuch.pcap"] {
            probe(&there.parse().unwrap()).unwrap();
        }
    }
}
