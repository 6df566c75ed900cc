//! Opening of ports by their URIs.

use linerate_linux::closest;

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
/// When the URI is invalid or the port cannot be opened; the error names the next step.
pub fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let driver = find_driver(uri)?;
    if driver.name != null::DRIVER.name {
        // All drivers but `null` write other packets into buffers.
        context.arena.forget_template();
    }
    let mut port = (driver.open)(uri, context)?;
    if let Some(filter) = &context.filter {
        // Packets from a capture or with `long=cut` may be shorter than they were on the wire.
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

/// Checks, before memory is allocated for a port, that its driver is known and that its interface
/// exists, for drivers that need one.
///
/// # Errors
///
/// Those of [`open`].
pub fn probe(uri: &PortUri) -> Result<(), OpenError> {
    if find_driver(uri)?.interface && !af_packet::is_any(uri) {
        // No privileges are needed.
        OpenErrors::with_remedy(uri, String::new()).find(uri.name())?;
    }
    Ok(())
}

/// Returns the number of packets that a port can hold beyond the usual number of a port; an arena needs
/// as many buffers more.
pub fn packets_kept(uri: &PortUri) -> usize {
    if uri.driver() == xdp::DRIVER.name { xdp::packets_kept(uri) } else { 0 }
}

fn find_driver(uri: &PortUri) -> Result<&'static Driver, OpenError> {
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
