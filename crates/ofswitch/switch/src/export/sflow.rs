//! Samples as datagrams of sFlow version 5 (sflow.org, "sFlow Version 5", July 2004).
//!
//! Flow samples with the first bytes of a packet, and counter samples with the generic counters of
//! an interface. There are no records of routes, users or media.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bytes of a packet that are kept.
pub const HEADER_BYTES: usize = 128;

/// A packet that was picked.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The port it came in by.
    pub in_port: u32,
    /// The port it went out by first.
    pub out_port: u32,
    /// Number of ports it went out by.
    pub copies: u32,
    /// Bytes of the packet.
    pub length: u32,
    /// Bytes of it that are kept.
    pub kept: u8,
    /// Its first bytes.
    pub header: [u8; HEADER_BYTES],
}

impl Sample {
    /// Takes a sample of a packet.
    #[must_use]
    pub fn new(packet: &[u8], in_port: u32, out_port: u32, copies: u32) -> Sample {
        let mut header = [0; HEADER_BYTES];
        let kept = packet.len().min(HEADER_BYTES);
        header[..kept].copy_from_slice(&packet[..kept]);
        let length = packet.len() as u32;
        Sample { in_port, out_port, copies, length, kept: kept as u8, header }
    }
}

/// A port, as counter samples have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub number: u32,
    /// Bits per second, 0 where not known.
    pub speed: u64,
    /// Whether it is meant to be up.
    pub enabled: bool,
    /// Whether it is.
    pub up: bool,
    /// Packets that came in.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets of these that were dropped.
    pub received_dropped: u64,
    /// Packets of these with errors.
    pub received_errors: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that should have gone out and were dropped.
    pub sent_dropped: u64,
}

/// Bytes of a frame's check, which count and are never there.
const FRAME_CHECK: u32 = 4;

/// A port's samples so far.
#[derive(Debug, Default)]
struct Source {
    samples: u32,
    counters: u32,
    pool: u32,
}

/// Writes the datagrams of an agent.
#[derive(Debug)]
pub struct Sflow {
    agent: IpAddr,
    limit: usize,
    rate: u32,
    sequence: u32,
    sources: BTreeMap<u32, Source>,
    /// The datagram under way, and its samples.
    datagram: Vec<u8>,
    samples: u32,
}

impl Sflow {
    /// Creates a writer for an agent, with datagrams of at most so many bytes; one of `rate`
    /// packets is picked.
    #[must_use]
    pub fn new(agent: IpAddr, limit: usize, rate: u32) -> Sflow {
        let limit = limit.clamp(512, 65_000);
        let sources = BTreeMap::new();
        Sflow { agent, limit, rate, sequence: 0, sources, datagram: Vec::new(), samples: 0 }
    }

    /// Adds a packet; `dropped` samples have been lost so far, and it is `uptime` milliseconds.
    pub fn sample(
        &mut self,
        sample: &Sample,
        dropped: u32,
        uptime: u32,
        send: &mut impl FnMut(&[u8]),
    ) {
        let source = self.sources.entry(sample.in_port).or_default();
        source.samples = source.samples.wrapping_add(1);
        source.pool = source.pool.wrapping_add(self.rate);
        let (number, pool) = (source.samples, source.pool);
        let kept = usize::from(sample.kept).min(HEADER_BYTES);
        let padded = kept.next_multiple_of(4);
        let body = 32 + 8 + 16 + padded;
        self.make_room(8 + body, uptime, send);
        let output = match sample.copies {
            // A packet that is dropped, for an unknown reason.
            0 => 1 << 30 | 256,
            1 => sample.out_port,
            copies => 1 << 31 | copies,
        };
        let length = sample.length + FRAME_CHECK;
        let words = [
            1,
            body as u32,
            number,
            sample.in_port & 0x00ff_ffff,
            self.rate,
            pool,
            dropped,
            sample.in_port,
            output,
            1,
            // The packet's first bytes, from Ethernet on.
            1,
            16 + padded as u32,
            1,
            length,
            FRAME_CHECK,
            kept as u32,
        ];
        self.words(&words);
        self.datagram.extend(&sample.header[..kept]);
        self.datagram.resize(self.datagram.len() + padded - kept, 0);
        self.samples += 1;
    }

    /// Adds a port's counters.
    pub fn counters(&mut self, interface: &Interface, uptime: u32, send: &mut impl FnMut(&[u8])) {
        const BODY: usize = 12 + 8 + 88;
        let source = self.sources.entry(interface.number).or_default();
        source.counters = source.counters.wrapping_add(1);
        let number = source.counters;
        self.make_room(8 + BODY, uptime, send);
        let high = |value: u64| (value >> 32) as u32;
        let status = u32::from(interface.enabled) | u32::from(interface.up) << 1;
        /// Not known: all ones.
        const UNKNOWN: u32 = u32::MAX;
        let words = [
            2,
            BODY as u32,
            number,
            interface.number & 0x00ff_ffff,
            1,
            1,
            88,
            interface.number,
            // Ethernet.
            6,
            high(interface.speed),
            interface.speed as u32,
            // Both directions at once.
            1,
            status,
            high(interface.received_bytes),
            interface.received_bytes as u32,
            interface.received as u32,
            UNKNOWN,
            UNKNOWN,
            interface.received_dropped as u32,
            interface.received_errors as u32,
            UNKNOWN,
            high(interface.sent_bytes),
            interface.sent_bytes as u32,
            interface.sent as u32,
            UNKNOWN,
            UNKNOWN,
            interface.sent_dropped as u32,
            UNKNOWN,
            // Promiscuous.
            1,
        ];
        self.words(&words);
        self.samples += 1;
    }

    /// Sends the datagram under way.
    pub fn finish(&mut self, uptime: u32, send: &mut impl FnMut(&[u8])) {
        if self.samples == 0 {
            return;
        }
        let mut head = Vec::with_capacity(self.header());
        head.extend(5u32.to_be_bytes());
        match self.agent {
            IpAddr::V4(address) => {
                head.extend(1u32.to_be_bytes());
                head.extend(address.octets());
            }
            IpAddr::V6(address) => {
                head.extend(2u32.to_be_bytes());
                head.extend(address.octets());
            }
        }
        self.sequence = self.sequence.wrapping_add(1);
        for word in [0, self.sequence, uptime, self.samples] {
            head.extend(u32::to_be_bytes(word));
        }
        self.datagram[..head.len()].copy_from_slice(&head);
        send(&self.datagram);
        self.datagram.clear();
        self.samples = 0;
    }

    fn header(&self) -> usize {
        if self.agent.is_ipv4() { 28 } else { 40 }
    }

    fn make_room(&mut self, count: usize, uptime: u32, send: &mut impl FnMut(&[u8])) {
        if self.datagram.len() + count > self.limit {
            self.finish(uptime, send);
        }
        if self.datagram.is_empty() {
            self.datagram.resize(self.header(), 0);
        }
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.datagram.extend(word.to_be_bytes()));
    }
}
