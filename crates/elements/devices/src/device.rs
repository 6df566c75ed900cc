//! Ports of device names: Click names interfaces, and `METHOD` selects the driver.

use std::{collections::HashMap, sync::Mutex};

use linerate_graph::{ElementBuilder, ElementStatements};
use linerate_port::{DRIVERS, PortUri, UriError};

use super::{device_info::named, port_users::quietly};

/// The ports by which `FromDevice` elements reach their devices, for the
/// `ToDevice` elements of the same graph; and the interfaces `FromHost` makes.
#[derive(Default)]
pub(super) struct Devices {
    ports: Mutex<HashMap<String, PortUri>>,
}

impl Devices {
    pub(super) fn add(&self, device: &str, uri: &PortUri) {
        self.ports.lock().expect("no panic while held").insert(device.into(), uri.clone());
    }

    pub(super) fn find(&self, device: &str) -> Option<PortUri> {
        self.ports.lock().expect("no panic while held").get(device).cloned()
    }
}

/// The driver a method means; `None` for an unknown one. Every way of Click's
/// to get at packets in the kernel is an `AF_PACKET` socket here.
fn driver(method: &str) -> Option<&'static str> {
    match method {
        "PCAP" | "LINUX" | "PCAPFD" | "DEVBPF" | "PACKET" => Some("packet"),
        "XDP" | "NETMAP" => Some("xdp"),
        _ => None,
    }
}

/// Returns the port that was declared for a device, or whose name it already is.
pub(super) fn port(make: &ElementBuilder<'_>, device: &str) -> Option<Result<PortUri, UriError>> {
    if let Some(uri) = named(make, device) {
        return Some(Ok(uri));
    }
    let (driver, _) = device.split_once(':')?;
    DRIVERS.iter().any(|known| known.name == driver).then(|| device.parse())
}

/// The port of a `FromDevice`.
fn source(make: &mut ElementBuilder<'_>) -> Result<PortUri, String> {
    let device: String = quietly(make, "DEVNAME").unwrap_or_default();
    if let Some(uri) = port(make, &device) {
        return uri.map_err(|error| error.to_string());
    }
    let mut method: String = quietly(make, "METHOD").unwrap_or_default();
    if method.is_empty() {
        method = quietly(make, "CAPTURE").unwrap_or_default();
    }
    let sniffer = quietly(make, "SNIFFER").unwrap_or(true);
    let known = if method.is_empty() { Some("packet") } else { driver(&method) };
    let driver = known.ok_or("bad METHOD")?;
    // Only AF_XDP keeps packets from the kernel.
    let driver = if sniffer { driver } else { "xdp" };
    let switch = |on| if on { "on" } else { "off" };
    let promiscuous = quietly(make, "PROMISC").unwrap_or(false);
    let mut uri = PortUri::new(driver, &device).with("promisc", switch(promiscuous));
    if driver == "packet" {
        if quietly(make, "OUTBOUND").unwrap_or(false) {
            uri = uri.with("outbound", "on");
        }
        // Without annotations the time is not used.
        if quietly(make, "TIMESTAMP").unwrap_or(true) && make.world.annotated {
            uri = uri.with("time", "on");
        }
    }
    Ok(uri)
}

/// Tells `ToDevice` elements how a `FromDevice` reaches the same device.
pub(super) fn prepare_source(make: &mut ElementBuilder<'_>, _: &mut ElementStatements) {
    let device: Option<String> = quietly(make, "DEVNAME");
    if let (Some(device), Ok(uri)) = (device, source(make)) {
        make.world.common::<Devices>().add(&device, &uri);
    }
}

/// The port of a `FromDevice`; a stand-in after an error.
pub(super) fn source_port(make: &mut ElementBuilder<'_>) -> PortUri {
    make.need::<String>("DEVNAME");
    // Reported where they are wrong.
    let _: (Option<bool>, Option<bool>, Option<bool>) =
        (make.get("PROMISC"), make.get("OUTBOUND"), make.get("TIMESTAMP"));
    let _: (Option<bool>, Option<String>) = (make.get("SNIFFER"), make.get("METHOD"));
    source(make).unwrap_or_else(|error| {
        make.error(error);
        PortUri::new("null", "")
    })
}

/// The port of a `ToDevice`: by the method given, else as the `FromDevice` of
/// the same device, else an `AF_PACKET` socket.
pub(super) fn sink_port(make: &mut ElementBuilder<'_>) -> PortUri {
    let device: String = make.need("DEVNAME");
    let method: String = make.get("METHOD").unwrap_or_default();
    let matching = make.world.common::<Devices>().find(&device);
    let known = if method.is_empty() {
        matching.as_ref().map_or(Some("packet"), |uri| Some(uri.driver()))
    } else {
        driver(&method)
    };
    let found = match (port(make, &device), known, &matching) {
        (Some(uri), ..) => uri.map_err(|error| error.to_string()),
        (None, None, _) => Err("bad METHOD".into()),
        (None, Some("xdp"), Some(uri)) if uri.driver() == "xdp" => Ok(uri.clone()),
        (None, Some(driver), _) => Ok(PortUri::new(driver, &device)),
    };
    found.unwrap_or_else(|error| {
        make.error(error);
        PortUri::new("null", "")
    })
}
