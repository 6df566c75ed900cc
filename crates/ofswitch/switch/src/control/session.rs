//! Session with a controller: messages in, answers out, without a connection.
//!
//! Messages are handled one after the other, each wholly before the next, so that a barrier has
//! nothing to wait for but the workers.

mod bundles;
mod configuration;
mod message_buffer;
mod packets;

use std::net::SocketAddr;
use std::sync::Arc;

use bundles::Bundles;

use super::admission::Ticket;
use super::connection::EndReason;
use super::outbox::Outbox;
use super::shared::Shared;
use crate::switch::{Answer, Origin};
use crate::wire::multipart::{FlowMonitor, Parts, Reply, Request, TableFeatures};
use crate::wire::queue::ALL_QUEUES;
use crate::wire::{
    ALL_TABLES, AsyncKind, Capabilities, ErrorMessage, Fault, Features, FlowFlags, FlowMod,
    FlowModCommand, Header, Hello, Message, MultipartRequest, NiciraMessage, PortNumber,
    QueueConfig, Role, RoleMessage, Stream, Version,
};

/// The type of hello, in all versions.
const HELLO: u8 = 0;

/// Bytes of all parts of a request together, at most.
const PARTS: usize = 1 << 20;

/// Messages handled before the connection may write again.
const AT_ONCE: usize = 256;

/// Most bytes of a hello, which an unauthenticated peer sends.
const HELLO_ROOM: u16 = 1024;

/// Session with one controller.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    number: u64,
    outbox: Arc<Outbox>,
    stream: Stream,
    version: Option<Version>,
    /// Whether there were changes since the last barrier.
    changed: bool,
    /// Whether changes of flows have a table in OpenFlow 1.0.
    table_ids: bool,
    bundles: Bundles,
    /// The parts of a request so far.
    parts: Option<RequestParts>,
    /// An answer that is not sent completely.
    answering: Option<Answering>,
    /// The check that the peer has to pass at its hello.
    check: HelloCheck,
    /// Whether a message was handled since `take_progress` was called.
    progress: bool,
}

/// Check at the hello, before a connection controls the switch.
#[derive(Debug)]
pub(super) enum HelloCheck {
    /// No check.
    Open,
    /// The limits of a listener.
    Listener(Ticket),
    /// The user of a peer that the switch connected to: it may have to be one that may control the
    /// switch. The kernel knows the user only after the peer has accepted the connection, so after
    /// its hello.
    Dialled { ours: SocketAddr, theirs: SocketAddr },
}

/// An answer on its way.
#[derive(Debug)]
struct Answering {
    pieces: Answer,
    parts: Parts,
    xid: u32,
    /// Set for a request of flow monitors: their updates wait for its end.
    is_of_monitors: bool,
}

#[derive(Debug)]
struct RequestParts {
    xid: u32,
    bytes: usize,
    tables: Vec<TableFeatures>,
}

impl Session {
    /// Begins a session: sends a hello.
    pub(super) fn new(
        shared: Arc<Shared>,
        number: u64,
        outbox: Arc<Outbox>,
        check: HelloCheck,
    ) -> Session {
        let versions = &shared.options.versions;
        if let Some(&newest) = versions.iter().max()
            && let Ok(hello) = Message::Hello(Hello::from_versions(versions)).encode(newest, 0)
        {
            outbox.answer(hello);
        }
        Session {
            bundles: Bundles::new(Arc::clone(&shared)),
            shared,
            number,
            outbox,
            stream: Stream::new(),
            version: None,
            changed: false,
            table_ids: false,
            parts: None,
            answering: None,
            check,
            progress: false,
        }
    }

    /// Returns true if its place was given to another connection.
    pub(super) fn is_ending(&self) -> bool {
        matches!(&self.check, HelloCheck::Listener(ticket) if ticket.is_ending())
    }

    /// Returns true if a message is incomplete.
    pub(super) fn has_half(&self) -> bool {
        self.stream.waiting() > 0
    }

    /// Returns true if a message was handled since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns true if no message is handled before answers are read.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    pub(super) fn is_established(&self) -> bool {
        self.version.is_some()
    }

    /// Bytes that came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.stream.push(bytes);
    }

    /// Handles messages that came, and returns true if there may be more of them.
    pub(super) fn advance(&mut self) -> Result<bool, EndReason> {
        for _ in 0..AT_ONCE {
            if self.outbox.is_full() {
                return Ok(true);
            }
            if self.answering.is_some() {
                self.answer_more();
                continue;
            }
            // A first message that is no hello is an error at once.
            let first = self.stream.next_header().filter(|_| self.version.is_none());
            let is_hello = |header: Header| header.kind == HELLO && header.length <= HELLO_ROOM;
            if first.is_some_and(|header| !is_hello(header)) {
                return Err(EndReason::NoHello);
            }
            let mut stream = std::mem::take(&mut self.stream);
            let message = stream.next_message().map_err(EndReason::Garbage);
            let handled = match message {
                Ok(Some(message)) => self.receive(message).map(|()| true),
                Ok(None) => Ok(false),
                Err(ended) => Err(ended),
            };
            self.stream = stream;
            if !handled? {
                return Ok(false);
            }
            self.progress = true;
        }
        Ok(true)
    }

    /// Asks whether the controller is there.
    pub(super) fn probe(&mut self) {
        self.answer(&Message::EchoRequest(Vec::new()), 0);
    }

    /// Handles time-outs. To be called every second at least.
    pub(super) fn tick(&mut self) {
        if let Some(version) = self.version {
            for (xid, message) in self.bundles.expired(version) {
                self.answer(&message, xid);
            }
        }
        self.shared.monitors.go_on(self.number);
    }

    fn answer(&self, message: &Message, xid: u32) {
        let Some(version) = self.version else { return };
        match message.encode(version, xid) {
            Ok(bytes) => self.outbox.answer(bytes),
            // An answer that the version cannot encode becomes an error.
            Err(_) if !matches!(message, Message::Error(_)) => {
                let error = ErrorMessage::new(Fault::UnencodableError, version, &[]);
                self.answer(&Message::Error(error), xid);
            }
            Err(_) => {}
        }
    }

    fn refuse(&self, fault: Fault, version: Version, bytes: &[u8]) {
        let xid = Header::read(bytes).map_or(0, |header| header.xid);
        let error = Message::Error(ErrorMessage::new(fault, version, bytes));
        if let Ok(bytes) = error.encode(version, xid) {
            self.outbox.answer(bytes);
        }
    }

    /// Handles one message.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), EndReason> {
        let Some(header) = Header::read(bytes) else { return Ok(()) };
        let Some(version) = self.version else { return self.greet(header, bytes) };
        if header.version != version.number() && header.kind != HELLO {
            self.refuse(Fault::BadVersion, version, bytes);
            return Ok(());
        }
        let handled = match Message::decode(bytes) {
            Ok((_, xid, message)) => self.handle_message(message, version, xid, bytes),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = handled {
            self.refuse(fault, version, bytes);
        }
        Ok(())
    }

    /// The first message: a hello, by which a version is agreed on.
    fn greet(&mut self, header: Header, bytes: &[u8]) -> Result<(), EndReason> {
        let Ok((_, _, Message::Hello(hello))) = Message::decode(bytes) else {
            return Err(EndReason::NoHello);
        };
        let ours = &self.shared.options.versions;
        let Some(version) = Version::agree(ours, header.version, hello.bitmap.as_deref()) else {
            let said = Version::from_number(header.version).or(ours.iter().copied().max());
            let version = said.unwrap_or(Version::V13);
            let list: Vec<String> = ours.iter().map(ToString::to_string).collect();
            let text = format!("this switch speaks OpenFlow {}", list.join(", "));
            let code = Fault::HelloIncompatible.code(version);
            let error = Message::Error(ErrorMessage { code, data: text.into_bytes() });
            if let Ok(bytes) = error.encode(version, header.xid) {
                self.outbox.answer(bytes);
            }
            return Err(EndReason::NoVersion);
        };
        self.pass()?;
        self.version = Some(version);
        self.shared.established(self.number, version);
        Ok(())
    }

    /// Checks the peer at its hello.
    fn pass(&mut self) -> Result<(), EndReason> {
        match &self.check {
            HelloCheck::Open => {}
            HelloCheck::Listener(ticket) => {
                if !ticket.establish() {
                    self.shared.count_rejected(self.number);
                    return Err(EndReason::Full);
                }
            }
            HelloCheck::Dialled { ours, theirs } => {
                let trust = &self.shared.options.trust;
                trust.check_dialled(*ours, *theirs).map_err(EndReason::Refused)?;
                self.check = HelloCheck::Open;
            }
        }
        Ok(())
    }

    fn is_slave(&self) -> bool {
        let role = self.shared.peers.with(self.number, |peer| peer.role);
        role.is_none_or(|role| role == Role::Slave)
    }

    /// Checks that the controller may change the switch: a slave may only read.
    fn may_write(&mut self) -> Result<(), Fault> {
        if self.is_slave() {
            return Err(Fault::IsSlave);
        }
        self.changed = true;
        Ok(())
    }

    fn handle_message(
        &mut self,
        message: Message,
        version: Version,
        xid: u32,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        match message {
            Message::Hello(_) | Message::Error(_) | Message::EchoReply(_) => {}
            Message::EchoRequest(data) => self.answer(&Message::EchoReply(data), xid),
            Message::FeaturesRequest => {
                let features = self.features(version)?;
                self.answer(&Message::FeaturesReply(features), xid);
            }
            Message::GetConfigRequest => {
                self.answer(&Message::GetConfigReply(self.config(version)), xid);
            }
            Message::SetConfig(config) => self.set_config(config, version)?,
            Message::BarrierRequest => {
                self.settle();
                self.answer(&Message::BarrierReply, xid);
            }
            Message::MultipartRequest(request) => self.multipart(request, version, xid, bytes)?,
            Message::QueueGetConfigRequest(port) => {
                let queues = self.queues(port, version)?;
                self.answer(&Message::QueueGetConfigReply(queues), xid);
            }
            Message::RoleRequest(request) => {
                let role = self.set_role(request.role, Some(request.generation))?;
                let generation = self.shared.peers.lock().generation();
                let reply = RoleMessage { role, id: request.id, generation };
                self.answer(&Message::RoleReply(reply), xid);
            }
            Message::GetAsyncRequest => {
                let config = self.asynchronous(version);
                self.answer(&Message::GetAsyncReply(config), xid);
            }
            Message::SetAsync(config) => self.set_asynchronous(&config),
            Message::PacketOut(packet) => {
                self.may_write()?;
                self.packet_out(&packet)?;
            }
            Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::MeterMod(_) => {
                self.may_write()?;
                let message = self.place(message, version)?;
                self.change(&message, version, xid)?;
                self.forward(&message, bytes);
            }
            Message::BundleControl(control) => {
                if let Some(reply) = self.bundle_control(&control, version, xid, bytes)? {
                    self.answer(&reply, xid);
                }
            }
            Message::BundleAdd(add) => self.bundle_add(add, version, xid, bytes)?,
            Message::Nicira(message) => self.nicira(message, xid)?,
            // Messages that only a switch sends.
            Message::FeaturesReply(_)
            | Message::GetConfigReply(_)
            | Message::PacketIn(_)
            | Message::FlowRemoved(_)
            | Message::PortStatus(_)
            | Message::MultipartReply(_)
            | Message::BarrierReply
            | Message::QueueGetConfigReply(_)
            | Message::RoleReply(_)
            | Message::GetAsyncReply(_)
            | Message::RoleStatus(_)
            | Message::TableStatus(_)
            | Message::RequestForward(_) => return Err(Fault::BadType),
        }
        Ok(())
    }

    /// Waits until workers forward by the changes so far.
    fn settle(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.shared.switch.flush_counters();
        }
    }

    /// A change as the switch takes it.
    fn place(&self, message: Message, version: Version) -> Result<Message, Fault> {
        match message {
            Message::FlowMod(flow) if version == Version::V10 => {
                complete_flow_mod_of_1_0(flow, self.table_ids).map(Message::FlowMod)
            }
            other => Ok(other),
        }
    }

    fn change(&self, message: &Message, version: Version, xid: u32) -> Result<(), Fault> {
        let turn = self.shared.turns.wait();
        let (switch, now) = (&self.shared.switch, self.shared.now());
        let changed = switch.change_for(self.origin(xid), message, version, now);
        drop(turn);
        self.shared.monitors.send_updates();
        changed
    }

    fn origin(&self, xid: u32) -> Origin {
        Origin { controller: self.number, xid }
    }

    /// Forwards a change of groups or meters to other controllers that have chosen this message.
    fn forward(&self, message: &Message, bytes: &[u8]) {
        let reason = match message {
            Message::GroupMod(_) => 0,
            Message::MeterMod(_) => 1,
            _ => return,
        };
        let peers = self.shared.peers.lock();
        for peer in peers.peers.iter().filter(|peer| peer.number != self.number) {
            let Some(version) = peer.hears(AsyncKind::RequestForward, reason) else { continue };
            // In this controller's encoding, or in that of the other's version.
            let said = if Some(version) == self.version {
                Ok(bytes.to_vec())
            } else {
                message.encode(version, 0)
            };
            if let Ok(said) = said {
                peer.send_message(&Message::RequestForward(said), version);
            }
        }
    }

    fn features(&self, version: Version) -> Result<Features, Fault> {
        let switch = &self.shared.switch;
        let mut capabilities = Capabilities::FLOW_STATS.0
            | Capabilities::TABLE_STATS.0
            | Capabilities::PORT_STATS.0
            | Capabilities::QUEUE_STATS.0;
        let mut ports = Vec::new();
        let mut actions = 0;
        match version {
            Version::V10 => {
                capabilities |= Capabilities::ARP_MATCH_IP.0;
                // All twelve of OpenFlow 1.0.
                actions = 0xfff;
                let all = Request::PortDesc(PortNumber::ANY);
                if let Reply::PortDesc(all) = switch.answer(&all, version, self.shared.now())? {
                    ports = all;
                }
                // OpenFlow 1.0 has only ports with 16 bits.
                ports.retain(|port| port.number.0 < 0xff00 || !port.number.is_port());
            }
            Version::V13 => capabilities |= Capabilities::GROUP_STATS.0,
            Version::V14 | Version::V15 => {
                capabilities |= Capabilities::GROUP_STATS.0
                    | Capabilities::BUNDLES.0
                    | Capabilities::FLOW_MONITORING.0;
            }
        }
        Ok(Features {
            datapath: switch.options().datapath,
            buffers: 0,
            tables: switch.options().tables,
            auxiliary: 0,
            capabilities: Capabilities(capabilities),
            actions,
            ports,
        })
    }

    fn queues(&self, port: PortNumber, version: Version) -> Result<QueueConfig, Fault> {
        let request = Request::QueueDesc { port, queue: ALL_QUEUES };
        match self.shared.switch.answer(&request, version, self.shared.now())? {
            Reply::QueueDesc(queues) => Ok(QueueConfig { port, queues }),
            _ => Err(Fault::QueueBadPort),
        }
    }

    fn multipart(
        &mut self,
        request: MultipartRequest,
        version: Version,
        xid: u32,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let Some(request) = self.whole(request, xid, bytes.len())? else { return Ok(()) };
        if let Request::FlowMonitor(monitors) = &request {
            return self.monitor(monitors, version, xid);
        }
        let changes = matches!(&request, Request::TableFeatures(tables) if !tables.is_empty());
        if changes {
            self.may_write()?;
        }
        let _turn = changes.then(|| self.shared.turns.wait());
        let mut pieces =
            self.shared.switch.answer_in_pieces(&request, version, self.shared.now())?;
        drop(_turn);
        let first = pieces.next().ok_or(Fault::BadMultipart)?;
        let parts = Parts::new(&first, version, xid).map_err(|_| Fault::UnencodableError)?;
        let mut answering = Answering { pieces, parts, xid, is_of_monitors: false };
        if self.add(&mut answering, &first) {
            self.answering = Some(answering);
        }
        Ok(())
    }

    /// Changes flow monitors, and begins to answer with their initial flows.
    fn monitor(
        &mut self,
        monitors: &[FlowMonitor],
        version: Version,
        xid: u32,
    ) -> Result<(), Fault> {
        let empty = Reply::FlowMonitor(Vec::new());
        let parts = Parts::new(&empty, version, xid).map_err(|_| Fault::UnencodableError)?;
        let controller = (self.number, version, &self.outbox);
        let flows = self.shared.monitors.change(&self.shared.switch, controller, monitors)?;
        let pieces = Answer::initial(flows);
        self.answering = Some(Answering { pieces, parts, xid, is_of_monitors: true });
        Ok(())
    }

    /// Adds a piece of an answer, and sends the messages it completes. Returns false on an error.
    fn add(&self, answering: &mut Answering, piece: &Reply) -> bool {
        match answering.parts.add(piece) {
            Ok(messages) => {
                messages.into_iter().for_each(|message| self.outbox.answer(message));
                true
            }
            // A part that the version cannot encode becomes an error.
            Err(_) => {
                if let Some(version) = self.version {
                    let error = ErrorMessage::new(Fault::UnencodableError, version, &[]);
                    self.answer(&Message::Error(error), answering.xid);
                }
                false
            }
        }
    }

    /// Continues an answer, as fast as the peer reads it.
    fn answer_more(&mut self) {
        let Some(mut answering) = self.answering.take() else { return };
        match answering.pieces.next() {
            Some(piece) if self.add(&mut answering, &piece) => self.answering = Some(answering),
            piece => {
                let is_of_monitors = answering.is_of_monitors;
                if piece.is_none() {
                    self.outbox.answer(answering.parts.finish());
                }
                if is_of_monitors {
                    self.shared.monitors.told_initial(self.number);
                }
            }
        }
    }

    /// A request, once all its parts are there. Only that for features of tables can have several.
    fn whole(
        &mut self,
        request: MultipartRequest,
        xid: u32,
        bytes: usize,
    ) -> Result<Option<Request>, Fault> {
        let MultipartRequest { more, body } = request;
        let Request::TableFeatures(tables) = body else {
            return if more { Err(Fault::BadMultipart) } else { Ok(Some(body)) };
        };
        let mut parts = match self.parts.take() {
            Some(parts) if parts.xid == xid => parts,
            _ => RequestParts { xid, bytes: 0, tables: Vec::new() },
        };
        parts.bytes += bytes;
        parts.tables.extend(tables);
        if parts.bytes > PARTS {
            return Err(Fault::MultipartOverflow);
        }
        if !more {
            return Ok(Some(Request::TableFeatures(parts.tables)));
        }
        self.parts = Some(parts);
        Ok(None)
    }

    fn nicira(&mut self, message: NiciraMessage, xid: u32) -> Result<(), Fault> {
        match message {
            NiciraMessage::RoleRequest(role) => {
                let role = self.set_role(role, None)?;
                self.answer(&Message::Nicira(NiciraMessage::RoleReply(role)), xid);
            }
            // Flow-removed messages are in Nicira's form where 1.0 lacks a field.
            NiciraMessage::SetFlowFormat(_) | NiciraMessage::FlowAge => {}
            NiciraMessage::FlowModTableId(set) => self.table_ids = set,
            NiciraMessage::SetPacketInFormat(format) => {
                self.shared.peers.with(self.number, |peer| peer.format = format);
            }
            NiciraMessage::SetAsync(config) | NiciraMessage::SetAsync2(config) => {
                self.set_asynchronous(&config);
            }
            NiciraMessage::SetControllerId(id) => {
                self.shared.peers.with(self.number, |peer| peer.id = id);
            }
            NiciraMessage::Resume(packet) => {
                self.may_write()?;
                self.resume(&packet)?;
            }
            NiciraMessage::FlushZone(zone) => {
                self.may_write()?;
                let tracker = &self.shared.switch.shared_state().tracker;
                tracker.flush(|connection| connection.zone == zone);
            }
            NiciraMessage::Flush(filter) => {
                self.may_write()?;
                let tracker = &self.shared.switch.shared_state().tracker;
                tracker.flush(|connection| connection.passes(&filter));
            }
            NiciraMessage::FlowMonitorCancel(id) => self.shared.monitors.cancel(self.number, id)?,
            NiciraMessage::RoleReply(_)
            | NiciraMessage::FlowMonitorPaused
            | NiciraMessage::FlowMonitorResumed
            | NiciraMessage::FlowRemoved(_)
            | NiciraMessage::PacketIn(_)
            | NiciraMessage::PacketIn2(_) => return Err(Fault::BadExperimenterType),
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Its place is free before its end shows in the status.
        self.check = HelloCheck::Open;
        self.shared.left(self.number);
    }
}

/// Completes a flow change of OpenFlow 1.0 with the table and flags that other versions have.
///
/// There are no tables, and the upper byte of the command is part of it unless Nicira's extension
/// is on. The switch then chooses: flows are added to the first table, and changed or deleted in
/// all. One that is added begins to count anew.
fn complete_flow_mod_of_1_0(mut flow: FlowMod, table_ids: bool) -> Result<FlowMod, Fault> {
    if !table_ids {
        if flow.table != 0 {
            return Err(Fault::FlowModBadCommand);
        }
        flow.table = ALL_TABLES;
    }
    if flow.command == FlowModCommand::Add {
        flow.flags = flow.flags.with(FlowFlags::RESET_COUNTS);
    }
    Ok(flow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Match;

    #[test]
    fn openflow_1_0_means_a_table_and_counters_that_begin_anew() {
        let add = |table| FlowMod::add(table, 1, Match::new(), Vec::new());
        let meant = complete_flow_mod_of_1_0(add(0), false).unwrap();
        assert_eq!((meant.table, meant.flags), (ALL_TABLES, FlowFlags::RESET_COUNTS));
        assert_eq!(complete_flow_mod_of_1_0(add(3), false), Err(Fault::FlowModBadCommand));
        assert_eq!(complete_flow_mod_of_1_0(add(3), true).unwrap().table, 3);
        let modify = FlowMod { command: FlowModCommand::Modify, ..add(0) };
        assert_eq!(complete_flow_mod_of_1_0(modify, false).unwrap().flags, FlowFlags::default());
    }
}
