//! Bundles: messages that are kept, and then done together or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::super::shared::Shared;
use super::{Session, message_buffer::MessageBuffer};
use crate::wire::{
    BundleAdd, BundleControl, BundleFlags, BundleStep, ErrorMessage, Fault, Header, Message,
    Version,
};

/// Most open bundles of a controller.
const BUNDLES: usize = 16;

/// Bytes of messages that a controller may always have in bundles. Beyond that it may have as much
/// as it leaves of [`Limits::bundled`](super::super::Limits::bundled): one controller never gets
/// more than half, so there is always room for others.
const OWN: usize = 1 << 20;

/// Bytes of a message that an error quotes.
const SAID: usize = 64;

/// The bundles of a controller.
#[derive(Debug)]
pub(super) struct Bundles {
    shared: Arc<Shared>,
    open: BTreeMap<u32, Open>,
    /// Bytes of all of them.
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    flags: BundleFlags,
    closed: bool,
    /// The message that opened it, as much as an error quotes of it.
    xid: u32,
    said: Vec<u8>,
    used: Instant,
    messages: MessageBuffer,
}

impl Bundles {
    pub(super) fn new(shared: Arc<Shared>) -> Bundles {
        Bundles { shared, open: BTreeMap::new(), bytes: 0 }
    }

    fn open(
        &mut self,
        bundle: u32,
        flags: BundleFlags,
        (xid, said): (u32, &[u8]),
    ) -> Result<&mut Open, Fault> {
        if flags.contains(BundleFlags::TIME) {
            return Err(Fault::ScheduleUnsupported);
        }
        if self.open.len() >= BUNDLES && !self.open.contains_key(&bundle) {
            return Err(Fault::OutOfBundles);
        }
        let (used, messages) = (Instant::now(), MessageBuffer::default());
        let said = said[..said.len().min(SAID)].to_vec();
        let open = Open { flags, closed: false, xid, said, used, messages };
        Ok(self.open.entry(bundle).or_insert(open))
    }

    fn remove(&mut self, bundle: u32) -> Option<Open> {
        let open = self.open.remove(&bundle)?;
        self.give_back(open.messages.room());
        Some(open)
    }

    /// Reserves so many bytes, if as many are left for others.
    fn take(&mut self, size: usize) -> Result<(), Fault> {
        let bundled = self.shared.bundled.fetch_add(size, Ordering::Relaxed) + size;
        self.bytes += size;
        if self.bytes > OWN
            && self.bytes > self.shared.options.limits.bundled.saturating_sub(bundled)
        {
            self.give_back(size);
            return Err(Fault::BundleTooMany);
        }
        Ok(())
    }

    fn give_back(&mut self, size: usize) {
        self.shared.bundled.fetch_sub(size, Ordering::Relaxed);
        self.bytes -= size;
    }

    /// Returns an open bundle, if the flags are the same as ever.
    fn get(&mut self, bundle: u32, flags: BundleFlags) -> Result<&mut Open, Fault> {
        let open = self.open.get_mut(&bundle).ok_or(Fault::BundleBadId)?;
        if open.flags != flags {
            return Err(Fault::BundleBadFlags);
        }
        open.used = Instant::now();
        Ok(open)
    }

    /// Discards bundles that were idle for too long, and returns their errors.
    pub(super) fn expired(&mut self, version: Version) -> Vec<(u32, Message)> {
        let idle = self.shared.options.bundle_idle;
        let old = |open: &Open| !idle.is_zero() && open.used.elapsed() > idle;
        let gone: Vec<u32> =
            self.open.iter().filter(|(_, open)| old(open)).map(|(bundle, _)| *bundle).collect();
        let error = |open: Open| {
            let error = ErrorMessage::new(Fault::BundleTimeout, version, &open.said);
            (open.xid, Message::Error(error))
        };
        gone.into_iter().filter_map(|bundle| self.remove(bundle)).map(error).collect()
    }
}

impl Drop for Bundles {
    fn drop(&mut self) {
        while let Some(&bundle) = self.open.keys().next() {
            self.remove(bundle);
        }
    }
}

impl Session {
    pub(super) fn bundle_control(
        &mut self,
        control: &BundleControl,
        version: Version,
        xid: u32,
        bytes: &[u8],
    ) -> Result<Option<Message>, Fault> {
        let (bundle, flags) = (control.bundle, control.flags);
        let step = match control.step {
            // As in Open vSwitch, a slave gets this error at the first step.
            BundleStep::OpenRequest if self.is_slave() => return Err(Fault::IsSlave),
            BundleStep::OpenRequest => {
                if self.bundles.open.contains_key(&bundle) {
                    return Err(Fault::BundleExists);
                }
                self.bundles.open(bundle, flags, (xid, bytes))?;
                BundleStep::OpenReply
            }
            BundleStep::CloseRequest => {
                let open = self.bundles.get(bundle, flags)?;
                if std::mem::replace(&mut open.closed, true) {
                    return Err(Fault::BundleClosed);
                }
                BundleStep::CloseReply
            }
            BundleStep::CommitRequest => {
                let checked = self.bundles.get(bundle, flags).map(drop);
                let open = self.bundles.remove(bundle);
                checked?;
                self.may_write()?;
                let messages = open.map(|open| open.messages).unwrap_or_default();
                self.commit(&messages, version, xid)?;
                BundleStep::CommitReply
            }
            BundleStep::DiscardRequest => {
                self.bundles.remove(bundle).ok_or(Fault::BundleBadId)?;
                BundleStep::DiscardReply
            }
            BundleStep::OpenReply
            | BundleStep::CloseReply
            | BundleStep::CommitReply
            | BundleStep::DiscardReply => return Err(Fault::BundleBadType),
        };
        let reply = BundleControl { bundle, step, flags, properties: Vec::new() };
        Ok(Some(Message::BundleControl(reply)))
    }

    /// Adds a message to a bundle, after decoding it once so that its faults are reported at once.
    pub(super) fn bundle_add(
        &mut self,
        add: BundleAdd,
        version: Version,
        xid: u32,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if self.is_slave() {
            return Err(Fault::IsSlave);
        }
        // One that was not opened is with its first message.
        if !self.bundles.open.contains_key(&add.bundle) {
            self.bundles.open(add.bundle, add.flags, (xid, bytes))?;
        }
        let (_, _, message) = Message::decode(&add.message)?;
        if !matches!(
            message,
            Message::FlowMod(_)
                | Message::GroupMod(_)
                | Message::MeterMod(_)
                | Message::PortMod(_)
                | Message::TableMod(_)
                | Message::PacketOut(_)
        ) {
            return Err(Fault::BundleUnsupported);
        }
        self.place(message, version)?;
        let open = self.bundles.get(add.bundle, add.flags)?;
        if open.closed {
            return Err(Fault::BundleClosed);
        }
        let growth = open.messages.growth(add.message.len());
        self.bundles.take(growth)?;
        if !self.bundles.get(add.bundle, add.flags)?.messages.push(&add.message) {
            self.bundles.give_back(growth);
            return Err(Fault::BundleTooMany);
        }
        Ok(())
    }

    /// Does all of them, or returns the fault of the first wrong one and does none. Packets go out
    /// behind all changes.
    fn commit(&mut self, kept: &MessageBuffer, version: Version, xid: u32) -> Result<(), Fault> {
        let stop = &self.shared.stop;
        // Each is decoded in its turn: decoded messages take many times the memory.
        let messages = kept.iter().map(|bytes| {
            // A switch that stops does not wait for the rest.
            if stop.is_set() {
                return Err(Fault::BundleFailed);
            }
            self.read_kept(bytes, version)
        });
        let turn = self.shared.turns.wait();
        let (origin, now) = (self.origin(xid), self.shared.now());
        let done = self.shared.switch.bundle_for(origin, messages, version, now);
        drop(turn);
        self.shared.monitors.send_updates();
        done.map_err(|(nth, fault)| {
            self.refuse(fault, version, kept.iter().nth(nth).unwrap_or_default());
            Fault::BundleFailed
        })?;
        for bytes in kept.iter().filter(|bytes| is_packet_out(bytes)) {
            // Another controller may have deleted a group it needs.
            if let Ok(Message::PacketOut(packet)) = self.read_kept(bytes, version)
                && let Err(fault) = self.packet_out(&packet)
            {
                self.refuse(fault, version, bytes);
            }
        }
        Ok(())
    }

    fn read_kept(&self, bytes: &[u8], version: Version) -> Result<Message, Fault> {
        let (_, _, message) = Message::decode(bytes)?;
        self.place(message, version)
    }
}

fn is_packet_out(bytes: &[u8]) -> bool {
    // In every version.
    const PACKET_OUT: u8 = 13;
    Header::read(bytes).is_some_and(|header| header.kind == PACKET_OUT)
}
