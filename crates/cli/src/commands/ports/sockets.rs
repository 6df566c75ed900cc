//! Sockets at which programs wait for others to share memory with: `memif:` and `vhost:`.
//!
//! A socket does not tell its protocol, and asking is connecting, which a program may not expect.
//! So the protocol is inferred: memif's are nearly the only sockets of messages in order that
//! programs of users listen at; vhost-user's are known by the threads or arguments of the listener.

use std::io::{self, Write};

use anyhow::Result;
use linerate_linux::local_socket::{Listener, Owner, SocketKind, listeners};
use linerate_port::PortUri;
use serde_json::json;

use super::Use;
use crate::output::Output;

/// Folders of the system's own sockets for messages.
const SYSTEM: [&str; 2] = ["/run/systemd/", "/run/udev/"];

/// Returns true if the word names a socket, and not an interface.
pub(super) fn is_named(name: &str) -> bool {
    address(name).is_some()
}

/// The address of a port that shares memory.
fn address(name: &str) -> Option<String> {
    let uri: PortUri = name.parse().ok()?;
    matches!(uri.driver(), "memif" | "vhost").then(|| uri.name().to_owned())
}

/// Shows those that there are, or the ones named.
pub(super) fn show(named: &[&String], json: bool, out: &mut impl Write) -> Result<()> {
    let found = match listeners() {
        Ok(found) => found,
        Err(error) if named.is_empty() => {
            Output::new(json).line(&format!(
                "linerate: sockets are not listed: the kernel does not tell ({error})"
            ));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let wanted: Vec<&Listener> = if named.is_empty() {
        found.iter().filter(|one| !uses(one).is_empty()).collect()
    } else {
        let one = |name: &&String| {
            let address = address(name).unwrap_or_default();
            let one = found.iter().find(|one| one.address == address);
            one.ok_or_else(|| {
                let reason =
                    format!("no program listens at {address}: `linerate ports` lists sockets");
                io::Error::new(io::ErrorKind::NotFound, reason)
            })
        };
        named.iter().map(one).collect::<Result<_, _>>()?
    };
    for one in wanted {
        if json {
            let object = json!({
                "socket": one.address,
                "kind": one.kind,
                "owners": one.owners,
                "connected": one.connected,
                "ports": uses(one),
            });
            writeln!(out, "{object}")?;
        } else {
            out.write_all(text(one).as_bytes())?;
        }
    }
    Ok(())
}

/// The ports by which a program of ours reaches the listener.
fn uses(one: &Listener) -> Vec<Use> {
    let hint = |word: &str| one.hints.iter().any(|hint| hint.contains(word));
    let make = |port: String, how: &str| vec![Use { port, how: how.into() }];
    let address = &one.address;
    match one.kind {
        SocketKind::Seqpacket if SYSTEM.iter().any(|folder| address.starts_with(folder)) => {
            Vec::new()
        }
        SocketKind::Seqpacket if hint("memif") => make(format!("memif:{address}"), "is its client"),
        SocketKind::Seqpacket => {
            make(format!("memif:{address}"), "is its client, if it is a memif server")
        }
        SocketKind::Stream if !hint("vhost") => Vec::new(),
        SocketKind::Stream if one.owners.iter().any(|owner| owner.name.starts_with("qemu")) => {
            make(
                format!("vhost:{address}?side=client"),
                "is the device of the guest, if this is its network interface",
            )
        }
        SocketKind::Stream => make(
            format!("vhost:{address}"),
            "is what may listen there: guests and drivers of virtio connect to it",
        ),
    }
}

/// Listener and connected programs in a line, and the possible ports in another.
fn text(one: &Listener) -> String {
    let name = |owner: &Owner| format!("{} ({})", owner.name, owner.pid);
    let unknown = || "another user's program".to_owned();
    let mut owners: Vec<String> = one.owners.iter().map(name).collect();
    if owners.is_empty() {
        owners.push(unknown());
    }
    let connected: Vec<String> =
        one.connected.iter().map(|owner| owner.as_ref().map_or_else(unknown, name)).collect();
    let connected = match connected.len() {
        0 => "nobody is connected".to_owned(),
        _ => format!("connected: {}", connected.join(", ")),
    };
    let mut text = format!("{}: {} listens, {connected}\n", one.address, owners.join(", "));
    for Use { port, how } in uses(one) {
        text.push_str(&format!("  {port:20} {how}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, kind: SocketKind, name: &str, hints: &[&str]) -> Listener {
        Listener {
            address: address.into(),
            kind,
            owners: vec![Owner { pid: 7, name: name.into() }],
            connected: vec![Some(Owner { pid: 8, name: "dpdk-testpmd".into() }), None],
            hints: hints.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_socket_in_two_lines() {
        let one = listener("/run/m.sock", SocketKind::Seqpacket, "linerate", &["memif-server"]);
        let expected = "\
/run/m.sock: linerate (7) listens, connected: dpdk-testpmd (8), another user's program
  memif:/run/m.sock    is its client
";
        assert_eq!(text(&one), expected);
    }

    #[test]
    fn sockets_without_shared_memory_are_not_listed() {
        let ports = |one: Listener| uses(&one).into_iter().map(|one| one.port).collect::<Vec<_>>();
        let udev = listener("/run/udev/control", SocketKind::Seqpacket, "systemd-udevd", &[]);
        assert!(ports(udev).is_empty());
        assert!(
            ports(listener("/run/dbus", SocketKind::Stream, "dbus-daemon", &["dbus"])).is_empty()
        );
        let vpp = listener("@vpp/memif", SocketKind::Seqpacket, "vpp", &["vpp"]);
        assert_eq!(ports(vpp), ["memif:@vpp/memif"]);
        let qemu = listener("/run/v0", SocketKind::Stream, "qemu-system-x86", &["type=vhost-user"]);
        assert_eq!(ports(qemu), ["vhost:/run/v0?side=client"]);
        assert!(is_named("memif:/run/m.sock?id=3") && !is_named("eth0") && !is_named("null:"));
    }
}
