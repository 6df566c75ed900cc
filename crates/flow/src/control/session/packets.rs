//! Packets a controller sends, and has go on.

use std::thread;
use std::time::Duration;

use super::Session;
use crate::key::{self, Key};
use crate::pipeline;
use crate::switch::Injection;
use crate::wire::{Fault, Field, PacketIn, PacketOut};

/// The shortest packet: a header of Ethernet.
const SHORTEST: usize = 14;

/// How often it is tried to hand a packet to a worker, with a millisecond between.
const TRIES: u32 = 20;

impl Session {
    pub(super) fn packet_out(&self, out: &PacketOut) -> Result<(), Fault> {
        if out.buffer.is_some() {
            return Err(Fault::BufferUnknown);
        }
        if out.data.len() < SHORTEST {
            return Err(Fault::BadPacket);
        }
        self.shared.switch.check_actions(&out.actions)?;
        let mut key = Key::default();
        key.set(Field::InPort, out.in_port.0.into());
        out.fields.entries().for_each(|entry| key.set_entry(entry));
        key::extract(&out.data, &mut key);
        let switch = &*self.shared.switch;
        let memory = switch.memory();
        let snapshot = switch.snapshot();
        let decision =
            pipeline::packet_out(&snapshot, memory, switch, &key, &out.actions, self.shared.now());
        self.inject(Injection { packet: out.data.clone(), key, decision });
        Ok(())
    }

    /// Hands a packet to a worker. Where they are behind, only who sends it waits, and not for long.
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

    /// A packet that was paused goes on.
    pub(super) fn resume(&self, packet: &PacketIn) -> Result<(), Fault> {
        if packet.data.len() < SHORTEST {
            return Err(Fault::BadPacket);
        }
        let paused = self.shared.paused.find(&packet.continuation).ok_or(Fault::ResumeStale)?;
        let mut key = Key::default();
        packet.fields.entries().for_each(|entry| key.set_entry(entry));
        key::extract(&packet.data, &mut key);
        key.set_continuation(paused.number);
        let switch = &*self.shared.switch;
        let snapshot = switch.snapshot();
        let memory = switch.memory();
        let decision =
            pipeline::decide(&snapshot, memory, switch, &key, Some(&paused), self.shared.now());
        self.inject(Injection { packet: packet.data.clone(), key, decision });
        Ok(())
    }
}
