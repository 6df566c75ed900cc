//! Packet-outs and resumed packets of a controller.

use std::thread;
use std::time::Duration;

use super::Session;
use crate::key::{self, Key};
use crate::pipeline::{self, Continuation};
use crate::switch::Injection;
use crate::wire::{Fault, Field, PacketIn, PacketOut};

/// The shortest packet: a header of Ethernet.
const SHORTEST: usize = 14;

/// Metadata, registers, and which header comes first.
const SAID_AS_A_WHOLE: [Field; 6] = [
    Field::Metadata,
    Field::Xxreg0,
    Field::Xxreg1,
    Field::Xxreg2,
    Field::Xxreg3,
    Field::PacketType,
];

/// Attempts to hand a packet to a worker, a millisecond apart.
const TRIES: u32 = 20;

impl Session {
    pub(super) fn packet_out(&self, out: &PacketOut) -> Result<(), Fault> {
        self.shared.switch.check_packet_out(out)?;
        let mut key = Key::default();
        key.set(Field::InPort, out.in_port.0.into());
        out.fields.entries().for_each(|entry| key.set_entry(entry));
        let packet = framed(&out.data, &key);
        key::extract(&packet, &mut key);
        let switch = &*self.shared.switch;
        let shared_state = switch.shared_state();
        let snapshot = switch.snapshot();
        let decision = pipeline::packet_out(
            &snapshot,
            shared_state,
            switch,
            &key,
            &out.actions,
            self.shared.now(),
        );
        self.inject(Injection { packet, key, decision });
        Ok(())
    }

    /// Hands a packet to a worker. While the workers are behind, only the sender waits, and not for
    /// long.
    fn inject(&self, injection: Injection) {
        let mut rest = Box::new(injection);
        for _ in 0..TRIES {
            match self.shared.switch.inject(rest) {
                Ok(()) => return,
                Err(back) => rest = back,
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.shared.count_lost_packet();
    }

    /// Resumes a paused packet with the fields that the controller sends: metadata and registers
    /// that it leaves out are zero, as in the switch's own messages.
    pub(super) fn resume(&self, packet: &PacketIn) -> Result<(), Fault> {
        let mut key = Key::default();
        packet.fields.entries().for_each(|entry| key.set_entry(entry));
        let data = framed(&packet.data, &key);
        if data.len() < SHORTEST {
            return Err(Fault::BadPacket);
        }
        let paused =
            self.shared.continuations.find(&packet.continuation).ok_or(Fault::ResumeStale)?;
        key::extract(&data, &mut key);
        key.set_continuation(paused.number);
        let mut from = Continuation { number: paused.number, state: paused.state.clone() };
        SAID_AS_A_WHOLE.iter().for_each(|&field| from.state.key.set(field, 0));
        packet.fields.entries().for_each(|entry| from.state.key.set_entry(entry));
        let switch = &*self.shared.switch;
        let snapshot = switch.snapshot();
        let shared_state = switch.shared_state();
        let decision =
            pipeline::decide(&snapshot, shared_state, switch, &key, Some(&from), self.shared.now());
        self.inject(Injection { packet: data, key, decision });
        Ok(())
    }
}

/// Returns a packet as it is in the switch: one that does not begin with a header of Ethernet gets
/// one in front that no flow sees.
fn framed(data: &[u8], said: &Key) -> Vec<u8> {
    let packet_type = said.get(Field::PacketType);
    let mut packet = Vec::with_capacity(SHORTEST + data.len());
    if packet_type != 0 {
        packet.resize(SHORTEST - 2, 0);
        packet.extend((packet_type as u16).to_be_bytes());
    }
    packet.extend(data);
    packet
}
