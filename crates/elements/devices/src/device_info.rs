//! `DeviceInfo`: defines the port of a device's name in another framework.
//!
//! `--device NAME=PORT` does likewise and goes before it.

use std::{collections::HashMap, sync::Mutex};

use linerate_graph::{Arg, Class, ElementBuilder, ElementStatements, Inert, Role, unquoted};
use linerate_port::{PortUri, UriError};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "DeviceInfo",
    family: FAMILY,
    summary: "says which ports devices of other frameworks are",
    description: "Each argument is a device's name and a port: `0 xdp:eth0`. Where FromDPDKDevice, \
        FromNetmapDevice, XDPFromDevice, FromDevice, PollDevice and those that send name that \
        device, as `FromDPDKDevice(0)` does, they use that port. So a configuration written for \
        DPDK or netmap runs on any interface. The command line says the same by \
        `--device 0=xdp:eth0`, which goes before what is said here.",
    ports: "0/0",
    role: Role::Information,
    args: &[Arg::rest("NAME PORT", "name and port", "a device and the port it stands for")],
    cost: "Nothing while packets are handled.",
    example: "DeviceInfo(0 null:?count=10, 1 null:);\n\
        FromDPDKDevice(0) -> ToDPDKDevice(1); DriverManager(wait 10ms, stop);",
    prepare: Some(define),
    make: |_| Box::new(Inert),
    ..Class::here()
};

/// Definitions of `DeviceInfo` elements.
#[derive(Default)]
struct Named {
    ports: Mutex<HashMap<String, PortUri>>,
}

fn define(make: &mut ElementBuilder<'_>, _: &mut ElementStatements) {
    let named = make.world.common::<Named>();
    for argument in make.rest() {
        match definition(&argument) {
            None => make.error("expected 'NAME PORT', as in '0 xdp:eth0'"),
            Some(Ok((name, port))) => {
                let mut ports = named.ports.lock().expect("no panic while held");
                ports.insert(name, port);
            }
            Some(Err(error)) => make.error(error.to_string()),
        }
    }
}

/// Parses a definition: a name and its port.
pub(super) fn definition(argument: &str) -> Option<Result<(String, PortUri), UriError>> {
    let (name, port) = argument.trim().split_once(char::is_whitespace)?;
    let port = unquoted(port.trim()).parse();
    Some(port.map(|port| (unquoted(name), port)))
}

/// Returns the port that is defined for a name.
pub(super) fn named(make: &ElementBuilder<'_>, name: &str) -> Option<PortUri> {
    let said = || {
        let named = make.world.common::<Named>();
        let ports = named.ports.lock().expect("no panic while held");
        ports.get(name).cloned()
    };
    make.world.ports.devices.get(name).cloned().or_else(said)
}
