//! Control sockets of commands: the names by which clients find them, and their tokens.
//!
//! The listener itself is the element `ControlSocket`; [`ControlSockets`] gives it the addresses,
//! and the token that gives the right to write.

mod token;

use std::{env, net::SocketAddr, path::Path, process};

use anyhow::{Context as _, Result};
use linerate_graph::{Router, lang::config::quote};
use linerate_linux::{Claim, RuntimeDirectory};
use serde_json::{Value, json};

use crate::{
    control_address::{ControlAddress, element_name, remove_stale_socket},
    options::Controlled,
};
use token::MadeToken;
#[cfg(feature = "commands")]
pub(crate) use token::{
    SUFFIX as TOKEN_SUFFIX, file_name as token_file_name, port_of as port_of_token,
};

/// The environment variable with the token of servers and clients.
pub(crate) const TOKEN_VARIABLE: &str = "LINERATE_CONTROL_TOKEN";
/// The suffix of control sockets in the runtime directory.
pub(crate) const SOCKET_SUFFIX: &str = ".sock";
/// Permission bits of a UNIX socket without `--control-mode`.
const PRIVATE: u32 = 0o600;

/// The control sockets of a command, with their names and tokens.
#[derive(Debug, Default)]
pub(crate) struct ControlSockets {
    sockets: Vec<ControlSocket>,
    /// Claimed names in the runtime directory.
    names: Vec<(String, Claim)>,
}

/// A control socket.
#[derive(Debug)]
struct ControlSocket {
    place: ListenTarget,
    /// Source of the user's token: `file:NAME` or `env:NAME`.
    token: Option<String>,
    /// The token that was made because the user gave none.
    made: Option<MadeToken>,
}

#[derive(Debug)]
enum ListenTarget {
    /// The path of a UNIX socket, and the name by which clients find it.
    Unix { path: String, mode: u32, name: Option<String> },
    /// A TCP port, or with `or_above` the first free one from it on.
    Tcp { address: SocketAddr, or_above: bool },
}

impl Controlled {
    /// Prepares the sockets of the command line. One without a name is called `default`; if another process
    /// has the name, this process's number is added.
    ///
    /// # Errors
    ///
    /// When the runtime directory is needed and cannot be used.
    pub(crate) fn sockets(&self, default: &str) -> Result<ControlSockets> {
        let mut sockets = ControlSockets::default();
        for address in &self.control {
            let socket = self.socket(address, default, &mut sockets.names);
            let option = format!("--control {address}");
            sockets.sockets.push(socket.with_context(|| option.trim_end().to_owned())?);
        }
        Ok(sockets)
    }

    fn socket(
        &self,
        address: &ControlAddress,
        default: &str,
        names: &mut Vec<(String, Claim)>,
    ) -> Result<ControlSocket> {
        let mode = self.control_mode.unwrap_or(PRIVATE);
        let (token, mut made) = (self.token(), None);
        let place = match address {
            ControlAddress::Named(name) => {
                let directory = RuntimeDirectory::create()?;
                let (name, claim) = claim(&directory, name.as_deref().unwrap_or(default))?;
                let path = directory.path().join(name.clone() + SOCKET_SUFFIX);
                remove_stale_socket(&path);
                names.push((name.clone(), claim));
                ListenTarget::Unix {
                    path: path.to_string_lossy().into_owned(),
                    mode,
                    name: Some(name),
                }
            }
            ControlAddress::Unix(path) => {
                remove_stale_socket(Path::new(path));
                ListenTarget::Unix { path: path.clone(), mode, name: None }
            }
            ControlAddress::Tcp { address, port, or_above } => {
                if token.is_none() {
                    let advice = "without --token-file a token is made";
                    let directory = RuntimeDirectory::create().context(advice)?;
                    let path = directory.path().display();
                    let new = MadeToken::new(&directory);
                    made = Some(new.with_context(|| format!("cannot make a token in {path}"))?);
                }
                ListenTarget::Tcp { address: SocketAddr::new(*address, *port), or_above: *or_above }
            }
        };
        Ok(ControlSocket { place, token, made })
    }

    /// The source of the user's token.
    fn token(&self) -> Option<String> {
        let variable = || env::var_os(TOKEN_VARIABLE).map(|_| format!("env:{TOKEN_VARIABLE}"));
        self.token_file.as_ref().map(|name| format!("file:{name}")).or_else(variable)
    }
}

/// Claims a name for this process, or the name with the process's number.
fn claim(directory: &RuntimeDirectory, name: &str) -> Result<(String, Claim)> {
    let numbered = |number: u32| match number {
        0 => name.to_owned(),
        1 => format!("{name}-{}", process::id()),
        more => format!("{name}-{}-{more}", process::id()),
    };
    let mut number = 0;
    loop {
        let name = numbered(number);
        let claimed = directory.claim(&name);
        let path = directory.path().display();
        if let Some(claim) = claimed.with_context(|| format!("cannot claim {name} in {path}"))? {
            return Ok((name, claim));
        }
        number += 1;
    }
}

impl ControlSockets {
    /// The arguments of their elements, in order.
    pub(crate) fn configs(&self) -> Vec<String> {
        self.sockets.iter().map(ControlSocket::config).collect()
    }

    /// The name of this command in the runtime directory; `default` is claimed if it has none.
    ///
    /// # Errors
    ///
    /// When the runtime directory cannot be used.
    pub(crate) fn name(&mut self, default: &str) -> Result<String> {
        if self.names.is_empty() {
            self.names.push(claim(&RuntimeDirectory::create()?, default)?);
        }
        Ok(self.names[0].0.clone())
    }

    /// Records the ports that are bound, and publishes the tokens that were made.
    ///
    /// # Errors
    ///
    /// When a token's file cannot be linked to the port.
    pub(crate) fn bound(&mut self, router: &mut Router) -> Result<()> {
        for (number, socket) in self.sockets.iter_mut().enumerate() {
            let ListenTarget::Tcp { address, .. } = &mut socket.place else { continue };
            let handler = format!("{}.port", element_name(number));
            if let Ok(Ok(port)) = router.read(&handler, "").map(|port| port.trim().parse()) {
                address.set_port(port);
            }
            let port = address.port();
            match &mut socket.made {
                Some(made) => {
                    made.publish(port)
                        .with_context(|| format!("cannot keep the token of {port}"))?;
                }
                // Clients would find the token that a killed process has left instead of the given one.
                None => {
                    if let Ok(Some(directory)) = RuntimeDirectory::open() {
                        let _ = token::remove_stale_link(&directory, port);
                    }
                }
            }
        }
        Ok(())
    }

    /// The addresses, for `--ready-fd`.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.sockets.iter().map(ControlSocket::address).collect()
    }

    /// A line about each, for the terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.sockets.iter().map(ControlSocket::line).collect()
    }

    /// The control sockets as JSON.
    pub(crate) fn json(&self) -> Value {
        self.sockets.iter().map(ControlSocket::json).collect()
    }
}

impl ControlSocket {
    /// The arguments of its element.
    fn config(&self) -> String {
        let mut config = match &self.place {
            ListenTarget::Tcp { address, or_above } => {
                let above = if *or_above { "+" } else { "" };
                format!("TCP, {}{above}, ADDRESS {}", address.port(), address.ip())
            }
            ListenTarget::Unix { path, mode, .. } => {
                format!("UNIX, {}, MODE {mode:04o}", quote(path.as_bytes()))
            }
        };
        let made = self.made.as_ref().map(|made| format!("file:{}", made.path().display()));
        if let Some(token) = self.token.as_ref().or(made.as_ref()) {
            config += &format!(", TOKEN {}", quote(token.as_bytes()));
        }
        config
    }

    fn address(&self) -> String {
        match &self.place {
            ListenTarget::Unix { path, .. } => path.clone(),
            ListenTarget::Tcp { address, .. } => address.to_string(),
        }
    }

    /// The file with the token that was made.
    fn token_file(&self) -> Option<String> {
        let link = self.made.as_ref().and_then(MadeToken::link);
        link.map(|link| link.display().to_string())
    }

    fn line(&self) -> String {
        let address = self.address();
        let more = match (&self.place, self.token_file()) {
            (ListenTarget::Unix { name: Some(name), .. }, _) => format!(" (linerate call {name})"),
            (ListenTarget::Tcp { .. }, Some(file)) => format!(", token in {file}"),
            _ => String::new(),
        };
        format!("control socket: {address}{more}")
    }

    fn json(&self) -> Value {
        let mut object = json!({ "address": self.address() });
        if let ListenTarget::Unix { name: Some(name), .. } = &self.place {
            object["name"] = name.as_str().into();
        }
        if let Some(file) = self.token_file() {
            object["token_file"] = file.into();
        }
        object
    }
}

#[cfg(test)]
mod tests;
