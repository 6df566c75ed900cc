//! A conversation with a switch, and the names it has for its ports.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, anyhow, bail};
use linerate_linux::RuntimeDirectory;
use linerate_ofswitch::control::{Client, ClientError, ClientOptions, Credentials, Target, Trust};
use linerate_openflow::{
    text::{Names, Syntax},
    wire::{
        ALL_TABLES, FlowMod, FlowModCommand, Message, NiciraMessage, Port, PortNumber, Version,
        multipart::{FlowRequest, FlowStats, Reply, Request},
    },
};

use crate::{
    args::{FlowAt, SwitchTarget},
    commands::switch,
    exit::{Code, ReportedError, UsageError},
};

/// Advice when no switch is found.
const ADVICE: &str =
    "no switch listens here: start one by `linerate switch --openflow`, or say --switch TARGET";
/// Suffix of a switch's socket for controllers in the runtime directory.
const SUFFIX: &str = ".openflow";

/// The socket at which the switch of that name listens for controllers in the runtime directory.
pub(in crate::commands) fn open_flow_socket(directory: &RuntimeDirectory, name: &str) -> PathBuf {
    directory.path().join(format!("{name}{SUFFIX}"))
}

/// The socket of a switch that runs. The directory is this account's, so the socket is, too.
fn running(name: &str) -> Result<PathBuf> {
    let directory =
        RuntimeDirectory::open()?.ok_or_else(|| ReportedError::with_code(Code::File, ADVICE))?;
    Ok(open_flow_socket(&directory, name))
}

/// A switch that is spoken with.
pub(super) struct Connection {
    client: Client,
    /// Names of the ports.
    names: Names,
    /// Names of the ports in printed texts.
    printed: Names,
}

impl Connection {
    pub(super) fn open(at: &FlowAt) -> Result<Connection> {
        let target = match &at.switch {
            Some(SwitchTarget::At(target)) => target.clone(),
            Some(SwitchTarget::Named(name)) => Target::ConnectUnix(running(name)?),
            None => Target::ConnectUnix(running(switch::NAME)?),
        };
        let credentials = match (&at.private_key, &at.certificate, &at.ca_cert) {
            (Some(key), Some(certificate), Some(authorities)) => Some(Credentials {
                key: key.clone(),
                certificate: certificate.clone(),
                authorities: authorities.clone(),
            }),
            _ if target.is_secure() => {
                return Err(UsageError(format!(
                    "{target} needs --private-key, --certificate and --ca-cert"
                ))
                .into());
            }
            _ => None,
        };
        let by_name = !matches!(at.switch, Some(SwitchTarget::At(_)));
        let options = ClientOptions {
            versions: at.of.clone(),
            credentials,
            timeout: at.timeout,
            max_answer: at.max_answer,
            // The user's own choice of a socket is trusted; a default one has to be this user's, or root's.
            trust: by_name.then(Trust::default),
        };
        let client = Client::connect(&target, &options).map_err(|error| {
            let here = by_name && matches!(error, ClientError::Connect { .. });
            let error = explained(error);
            if here { error.context(ADVICE) } else { error }
        })?;
        let mut connection = Connection { client, names: Names::new(), printed: Names::new() };
        // Without names there are numbers.
        for port in or_nothing(connection.ports())? {
            connection.names.add_port(&port.name, port.number);
            if !at.numbers {
                connection.printed.add_port(&port.name, port.number);
            }
        }
        Ok(connection)
    }

    pub(super) fn version(&self) -> Version {
        self.client.version()
    }

    /// The syntax of texts to be read.
    pub(super) fn syntax(&self) -> Syntax<'_> {
        Syntax::with_names(self.version(), &self.names)
    }

    /// The syntax of printed texts.
    pub(super) fn printing(&self) -> Syntax<'_> {
        Syntax::with_names(self.version(), &self.printed)
    }

    /// Requests statistics or descriptions, and returns all parts of the answer.
    pub(super) fn ask(&mut self, request: Request) -> Result<Vec<Reply>> {
        self.client.request(request).map_err(explained)
    }

    /// Requests statistics that a switch may not know.
    pub(super) fn ask_if_known(&mut self, request: Request) -> Result<Vec<Reply>> {
        or_nothing(self.ask(request))
    }

    /// The ports there are.
    pub(super) fn ports(&mut self) -> Result<Vec<Port>> {
        if self.version() == Version::V10 {
            let answer = self.client.ask(&Message::FeaturesRequest).map_err(explained)?;
            return match answer {
                Message::FeaturesReply(features) => Ok(features.ports),
                _ => bail!("the switch does not say which ports it has"),
            };
        }
        let replies = self.ask(Request::PortDesc(PortNumber::ANY))?;
        Ok(replies
            .into_iter()
            .flat_map(|reply| match reply {
                Reply::PortDesc(ports) => ports,
                _ => Vec::new(),
            })
            .collect())
    }

    /// Flows, with their counts.
    pub(super) fn flows(&mut self, request: &FlowRequest) -> Result<Vec<FlowStats>> {
        let old = self.version() == Version::V10;
        // Nicira's form says more, where it is known.
        let first =
            if old { Request::NiciraFlow(request.clone()) } else { Request::Flow(request.clone()) };
        let replies = match self.client.request(first) {
            Err(ClientError::Refused(_)) if old => self.ask(Request::Flow(request.clone()))?,
            other => other.map_err(explained)?,
        };
        let flows = replies.into_iter().flat_map(|reply| match reply {
            Reply::Flow(flows) | Reply::NiciraFlow(flows) => flows,
            _ => Vec::new(),
        });
        Ok(flows.collect())
    }

    /// The request of the flows that a text describes.
    pub(super) fn request(&self, text: &str) -> Result<FlowRequest> {
        let parsed = self.syntax().request(text);
        Ok(parsed.map_err(|error| super::texts::wrong("", &error, text))?)
    }

    /// The messages for changes of flows, and for the settings they need.
    ///
    /// In OpenFlow 1.0 a change has no table, but by an extension that is turned on first.
    pub(super) fn messages(&mut self, flows: Vec<FlowMod>) -> Result<Vec<Message>> {
        let mut flows = flows;
        if self.version() == Version::V10 {
            let all =
                |flow: &FlowMod| flow.table == if flow.command.deletes() { ALL_TABLES } else { 0 };
            if flows.iter().all(all) {
                flows.iter_mut().for_each(|flow| flow.table = 0);
            } else {
                let on = Message::Nicira(NiciraMessage::FlowModTableId(true));
                let refused = self.client.tell(&[on]).map_err(explained)?;
                if let Some((_, refusal)) = refused.first() {
                    bail!("the switch has no tables for flows in OpenFlow 1.0: {refusal}");
                }
            }
        }
        Ok(flows.into_iter().map(Message::FlowMod).collect())
    }

    /// Has messages handled; the first that is refused is the error. `place` names one.
    pub(super) fn tell(
        &mut self,
        messages: &[Message],
        place: impl Fn(usize) -> String,
    ) -> Result<()> {
        let refused = self.client.tell(messages).map_err(explained)?;
        let Some((number, refusal)) = refused.first() else { return Ok(()) };
        let others = match refused.len() - 1 {
            0 => String::new(),
            1 => "; so is one other".to_owned(),
            others => format!("; so are {others} others"),
        };
        bail!("{}: the switch refuses it: {refusal}{others}", place(*number))
    }

    /// Has messages obeyed all at once, or none.
    pub(super) fn bundle(
        &mut self,
        messages: &[Message],
        place: impl Fn(usize) -> String,
    ) -> Result<()> {
        match self.client.bundle(messages) {
            Ok(()) => Ok(()),
            Err(ClientError::RefusedOne { number, refusal }) => {
                bail!("{}: the switch refuses it, so nothing is changed: {refusal}", place(number))
            }
            Err(error @ ClientError::TimedOut) => {
                Err(explained(error).context("it is not known whether anything is changed"))
            }
            Err(error) => Err(explained(error).context("nothing is changed")),
        }
    }

    /// The next message that comes unasked, or nothing when the time is over.
    pub(super) fn next(&mut self, timeout: Duration) -> Result<Option<Message>> {
        Ok(self.client.next(timeout)?.map(|(_, message)| message))
    }
}

/// Nothing, where the switch refuses to say it.
fn or_nothing<T>(said: Result<Vec<T>>) -> Result<Vec<T>> {
    match said {
        Err(error) if matches!(error.downcast_ref(), Some(ClientError::Refused(_))) => {
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Adds the option that raises the limit that the switch exceeded.
fn explained(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::TimedOut => anyhow!("{error}; --timeout gives it more"),
        ClientError::TooLong(_) => anyhow!("{error}; --max-answer lets it be longer"),
        other => other.into(),
    }
}

/// A deletion of everything.
pub(super) fn delete_all(syntax: &Syntax<'_>) -> Result<FlowMod> {
    Ok(syntax.flow("", FlowModCommand::Delete)?)
}
