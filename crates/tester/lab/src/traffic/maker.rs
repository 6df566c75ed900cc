//! From a description to frame after frame.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use linerate_packet::{MacAddr, patch::Patch, vlan::Tci};

use super::{Order, Protocol, Traffic, TrafficError};
use crate::{signature::Signature, values::Values};

/// One prepared frame.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    /// The changes of its fields; `None` for frames sent as they are.
    pub(super) fields: Option<Fields>,
}

/// Offsets of the fields in a template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) patch: Patch,
    /// Offset of the payload behind the transport header's start, and in the
    /// frame.
    pub(super) payload: (usize, usize),
}

/// A field that takes several values.
#[derive(Debug, Clone, Copy)]
struct Varying {
    field: Field,
    values: Values,
    index: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    SourcePort,
    DestinationPort,
    Source,
    Destination,
    Vlan,
    SourceMac,
    DestinationMac,
}

/// Makes the frames of a description, one after the other.
#[derive(Debug, Clone)]
pub struct FrameMaker {
    templates: Arc<[Template]>,
    next: usize,
    varying: Vec<Varying>,
    order: Order,
    random: fastrand::Rng,
    traffic: Option<Traffic>,
    stream: u16,
    sequence: u64,
}

impl Traffic {
    /// Prepares the frames of one worker, signed with this `stream`, by which a sink tells workers
    /// and runs apart. Varying fields go through the same values in every stream; random ones
    /// differ with the seed.
    ///
    /// # Errors
    ///
    /// When the description contradicts itself.
    pub fn maker(&self, stream: u16) -> Result<FrameMaker, TrafficError> {
        self.check()?;
        let templates: Vec<Template> =
            self.sizes.all().iter().map(|&size| self.template(size)).collect::<Result<_, _>>()?;
        let v = &self.variation;
        let ports = matches!(self.protocol, Protocol::Udp | Protocol::Tcp);
        let ip = !matches!(self.protocol, Protocol::Raw(_));
        let varying = [
            (Field::SourcePort, ports.then_some(v.source_ports)),
            (Field::DestinationPort, ports.then_some(v.destination_ports)),
            (Field::Source, ip.then_some(v.sources)),
            (Field::Destination, ip.then_some(v.destinations)),
            (Field::Vlan, v.vlans),
            (Field::SourceMac, Some(v.source_macs)),
            (Field::DestinationMac, Some(v.destination_macs)),
        ];
        let varying = varying
            .into_iter()
            .filter_map(|(field, values)| Some((field, values?)))
            .filter(|(_, values)| values.count() > 1)
            .map(|(field, values)| Varying { field, values, index: 0 })
            .collect();
        Ok(FrameMaker {
            templates: templates.into(),
            next: 0,
            varying,
            order: self.order,
            random: fastrand::Rng::with_seed(self.seed),
            traffic: Some(self.clone()),
            stream,
            sequence: 0,
        })
    }
}

impl FrameMaker {
    /// Sends given frames as they are, one after the other, for ever.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn of_frames(frames: Vec<Vec<u8>>) -> Result<FrameMaker, TrafficError> {
        if frames.is_empty() {
            return Err(TrafficError::Empty);
        }
        let template = |bytes| Template { bytes, fields: None };
        Ok(FrameMaker {
            templates: frames.into_iter().map(template).collect(),
            next: 0,
            varying: Vec::new(),
            order: Order::Sequential,
            random: fastrand::Rng::with_seed(0),
            traffic: None,
            stream: 0,
            sequence: 0,
        })
    }

    /// Length of the next frame, in bytes without FCS.
    #[inline]
    pub fn next_len(&self) -> usize {
        self.templates[self.next].bytes.len()
    }

    /// Length of the longest frame, in bytes without FCS.
    pub fn longest(&self) -> usize {
        self.templates.iter().map(|template| template.bytes.len()).max().unwrap_or(0)
    }

    /// Mean length of the frames, in bytes without FCS.
    pub fn mean_len(&self) -> f64 {
        let sum: usize = self.templates.iter().map(|template| template.bytes.len()).sum();
        sum as f64 / self.templates.len() as f64
    }

    /// Writes the next frame, which is [`FrameMaker::next_len`] bytes long, to
    /// `frame`, signed with `time` ([`now`](crate::now)).
    ///
    /// # Panics
    ///
    /// When `frame` has another length.
    #[inline]
    pub fn make(&mut self, frame: &mut [u8], time: u64) {
        let template = &self.templates[self.next];
        self.next += 1;
        if self.next == self.templates.len() {
            self.next = 0;
        }
        frame.copy_from_slice(&template.bytes);
        let (Some(fields), Some(traffic)) = (template.fields, &self.traffic) else { return };
        if !self.varying.is_empty() {
            for varying in &mut self.varying {
                if self.order == Order::Random {
                    varying.index = self.random.u64(..varying.values.count());
                }
                varying.write(frame, &fields, traffic);
            }
            if self.order == Order::Sequential {
                advance(&mut self.varying);
            }
        }
        if traffic.signed {
            let signature = Signature { stream: self.stream, sequence: self.sequence, time };
            let (behind_transport, in_frame) = fields.payload;
            let signed = match traffic.protocol {
                Protocol::Raw(_) => set(frame, in_frame, &signature.to_bytes()),
                _ => fields.patch.set_payload(frame, behind_transport, &signature.to_bytes()),
            };
            debug_assert!(signed, "templates have room for the signature");
        }
        self.sequence += 1;
    }
}

/// To the next combination: the first index that does not wrap stops the carry.
#[inline]
fn advance(varying: &mut [Varying]) {
    for varying in varying {
        varying.index += 1;
        if varying.index < varying.values.count() {
            return;
        }
        varying.index = 0;
    }
}

impl Varying {
    /// Writes the current value. The templates were made with these fields, so
    /// that they are there is known.
    #[inline]
    fn write(&self, frame: &mut [u8], fields: &Fields, traffic: &Traffic) {
        let value = self.values.at(self.index);
        let patch = &fields.patch;
        let v4 = || Ipv4Addr::from_bits(value as u32);
        let v6 = || Ipv6Addr::from_bits(value);
        let written = match self.field {
            Field::SourcePort => patch.set_src_port(frame, value as u16),
            Field::DestinationPort => patch.set_dst_port(frame, value as u16),
            Field::Source if traffic.ipv6 => patch.set_src_v6(frame, v6()),
            Field::Source => patch.set_src_v4(frame, v4()),
            Field::Destination if traffic.ipv6 => patch.set_dst_v6(frame, v6()),
            Field::Destination => patch.set_dst_v4(frame, v4()),
            Field::Vlan => {
                let tag = if traffic.outer_vlan.is_some() { 18 } else { 14 };
                let tci = Tci::new(traffic.priority, false, value as u16);
                set(frame, tag, &tci.0.to_be_bytes())
            }
            Field::SourceMac => set(frame, 6, &MacAddr::from_u64(value as u64).octets()),
            Field::DestinationMac => set(frame, 0, &MacAddr::from_u64(value as u64).octets()),
        };
        debug_assert!(written, "templates have all their fields");
    }
}

/// Writes bytes that no checksum covers.
#[inline]
fn set<const N: usize>(frame: &mut [u8], at: usize, bytes: &[u8; N]) -> bool {
    match frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        Some(field) => {
            *field = *bytes;
            true
        }
        None => false,
    }
}
