//! Stand-ins for ports where a configuration is tried: no interface is touched.

use std::path::Path;

use linerate_graph::{
    Plan, PlanElement, Processing, Role,
    lang::{Flat, FlatConnection, FlatElement, PortRef},
};
use serde::Serialize;

/// The part of an element on the packets' path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathRole {
    /// A port that receives.
    Receive,
    /// A port that sends.
    Transmit,
    /// Something on the way.
    Element,
}

/// More packets than any source makes while it is measured.
pub(crate) const NO_LIMIT: u64 = 2_000_000_000;

/// Returns true if an element makes packets, to a limit that can be written.
pub(crate) fn has_limit(element: &PlanElement) -> bool {
    let mut handlers = element.class.handlers.iter();
    element.inputs.is_empty() && handlers.any(|handler| handler.name == "limit")
}

/// Part, class and arguments of a replaced element.
#[derive(Debug, Clone)]
pub(crate) struct Replaced {
    pub(crate) part: PathRole,
    pub(crate) class: &'static str,
    pub(crate) config: String,
}

/// Puts a port with samples in the place of those that receive, and nothing in the place of those
/// that send or talk to other programs. `plan` is the configuration before. Returns the replaced
/// elements.
pub(crate) fn replace_ports(flat: &mut Flat, plan: &Plan, samples: &str) -> Vec<Option<Replaced>> {
    let mut parts: Vec<Option<Replaced>> = Vec::with_capacity(flat.elements.len());
    for (element, planned) in flat.elements.iter_mut().zip(&plan.elements) {
        let class = planned.class;
        if class.role != Role::Io && !matches!(class.name, "ControlSocket" | "FollowKernel") {
            parts.push(None);
            continue;
        }
        let (outputs, sends) = (planned.outputs.len(), !planned.inputs.is_empty());
        // Of a device headers can be found, and packets other than IP leave by output 1.
        let headers = outputs > 1 || element.config.contains("FORCE_IP true");
        let (part, stand_in, config) = match (outputs > 0, sends) {
            // Packets sent or written go on.
            (true, true) if class.name.starts_with("To") => match outputs {
                1 => (PathRole::Transmit, "Null", String::new()),
                _ => (PathRole::Transmit, "StaticSwitch", "0".into()),
            },
            (true, _) if headers => {
                (PathRole::Receive, "FromDevice", format!("{samples}, FORCE_IP true"))
            }
            // The element that pulls from it decides how fast packets come, also through a queue.
            (true, _) if planned.outputs.contains(&Processing::Pull) => {
                (PathRole::Receive, "FromPort", format!("{samples}, WAIT true"))
            }
            (true, _) => (PathRole::Receive, "FromPort", samples.to_owned()),
            (false, true) => (PathRole::Transmit, "Discard", String::new()),
            (false, false) => (PathRole::Element, "AlignmentInfo", String::new()),
        };
        element.class = stand_in.into();
        let config = std::mem::replace(&mut element.config, config);
        parts.push(Some(Replaced { part, class: class.name, config }));
    }
    for (at, planned) in plan.elements.iter().enumerate() {
        let receives = |one: &Replaced| one.part == PathRole::Receive;
        let Some(replaced) = parts[at].clone().filter(receives) else { continue };
        if !planned.inputs.is_empty() {
            parts.extend(send_apart(flat, at, &replaced));
        }
        for (port, output) in planned.outputs.iter().enumerate() {
            if *output == Processing::Pull {
                // A port pushes.
                put_behind(flat, PortRef { element: at, port }, "Queue", "");
                parts.push(None);
            }
        }
    }
    parts
}

/// Gives the input of an element that receives as well to elements of their own, one for each
/// input.
fn send_apart(flat: &mut Flat, at: usize, replaced: &Replaced) -> Vec<Option<Replaced>> {
    let Flat { elements, connections, .. } = flat;
    let mut senders: Vec<(usize, usize)> = Vec::new();
    let mut parts = Vec::new();
    for connection in connections.iter_mut().filter(|one| one.to.element == at) {
        let port = connection.to.port;
        let known = senders.iter().find(|(of, _)| *of == port).map(|(_, sender)| *sender);
        let sender = known.unwrap_or_else(|| {
            let FlatElement { name, landmark, .. } = &elements[at];
            elements.push(FlatElement {
                name: format!("{name}@@{port}"),
                class: "Discard".into(),
                config: String::new(),
                landmark: landmark.clone(),
            });
            senders.push((port, elements.len() - 1));
            parts.push(Some(Replaced { part: PathRole::Transmit, ..replaced.clone() }));
            elements.len() - 1
        });
        (connection.to.element, connection.to.port) = (sender, 0);
    }
    parts
}

/// Puts an element with an input and an output behind an output.
pub(crate) fn put_behind(flat: &mut Flat, output: PortRef, class: &str, config: &str) {
    let Flat { elements, connections, .. } = flat;
    let put = PortRef { element: elements.len(), port: 0 };
    let FlatElement { name, landmark, .. } = &elements[output.element];
    let (name, landmark) = (format!("{name}@@{}@@{class}", output.port), landmark.clone());
    for connection in connections.iter_mut().filter(|one| one.from == output) {
        connection.from = put;
    }
    connections.push(FlatConnection { from: output, to: put, landmark: landmark.clone() });
    let (class, config) = (class.into(), config.into());
    elements.push(FlatElement { name, class, config, landmark });
}

/// Gives the devices that were replaced an Ethernet address where this machine
/// has no such interface: configurations name it, as in `eth0:eth`.
pub(crate) fn name_devices(flat: &mut Flat, parts: &[Option<Replaced>]) {
    let first =
        |replaced: &Replaced| replaced.config.split(',').next().map(str::trim).map(str::to_owned);
    let is_name = |name: &String| {
        !name.is_empty()
            && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
    };
    let mut names: Vec<String> = parts
        .iter()
        .flatten()
        .filter(|one| matches!(one.class, "FromDevice" | "ToDevice"))
        .filter_map(first)
        .filter(is_name)
        .filter(|name| !Path::new("/sys/class/net").join(name).exists())
        .collect();
    names.sort_unstable();
    names.dedup();
    let Some(landmark) = flat.elements.first().map(|first| first.landmark.clone()) else { return };
    let addresses = names.iter().enumerate().map(|(at, name)| format!("{name} 2:0:0:0:1:{at:x}"));
    let config = addresses.collect::<Vec<_>>().join(", ");
    if !config.is_empty() {
        let (name, class) = ("lab@@devices".into(), "AddressInfo".into());
        flat.elements.push(FlatElement { name, class, config, landmark });
    }
}
