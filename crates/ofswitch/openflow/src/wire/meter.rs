//! Meters: limits of rates in packets or bits.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::numbered::{flags, numbered};
use super::unencodable::Unencodable;

/// Meters have numbers from 1 up to this one.
pub const MAX_METER: u32 = 0xffff_0000;
/// The meter of packets for the slow path of the switch.
pub const SLOW_PATH: u32 = 0xffff_fffd;
/// The meter of the connection to controllers.
pub const CONTROLLER: u32 = 0xffff_fffe;
/// All meters, in requests.
pub const ALL_METERS: u32 = 0xffff_ffff;

numbered! {
    /// Command on a meter.
    pub enum MeterCommand: u16 {
        /// It is added.
        Add = 0,
        /// It becomes another.
        Modify = 1,
        /// It is deleted, or all are.
        Delete = 2,
    }
}

flags! {
    /// Unit of a meter's rates, and its options.
    pub struct MeterFlags: u16 {
        /// Rates are in kbit/s.
        const KBPS = 1;
        /// Rates are in packets per second.
        const PACKETS = 1 << 1;
        /// Bands have a burst.
        const BURST = 1 << 2;
        /// Statistics are kept.
        const STATS = 1 << 3;
    }
}

/// A rate and the effect above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The rate, in the unit of the meter's flags.
    pub rate: u32,
    /// The burst, in kbit or packets.
    pub burst: u32,
    /// Effect on packets above the rate.
    pub effect: BandEffect,
}

/// Effect of a band on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandEffect {
    /// Drops them.
    Drop,
    /// Raises their drop precedence by so much.
    Remark(u8),
}

/// A change of a meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterMod {
    /// Command on the meter.
    pub command: MeterCommand,
    /// Unit of its rates, and its options.
    pub flags: MeterFlags,
    /// Its number.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

const DROP: u16 = 1;
const REMARK: u16 = 2;

impl MeterMod {
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<MeterMod, Fault> {
        let command = reader.u16()?;
        let flags = MeterFlags(reader.u16()?);
        let meter = reader.u32()?;
        let command = MeterCommand::from_number(command).ok_or(Fault::MeterBadCommand)?;
        let special = matches!(meter, SLOW_PATH | CONTROLLER);
        let all = meter == ALL_METERS && command == MeterCommand::Delete;
        if meter == 0 || (meter > MAX_METER && !special && !all) {
            return Err(Fault::InvalidMeter);
        }
        if command == MeterCommand::Delete {
            // The rest is ignored.
            return Ok(MeterMod {
                command,
                flags: MeterFlags::default(),
                meter,
                bands: Vec::new(),
            });
        }
        let both = MeterFlags::KBPS.with(MeterFlags::PACKETS);
        if !flags.is_known() || flags.contains(both) {
            return Err(Fault::MeterBadFlags);
        }
        Ok(MeterMod { command, flags, meter, bands: decode_bands(reader)? })
    }

    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u16(self.command.number());
        out.u16(self.flags.0);
        out.u32(self.meter);
        encode_bands(&self.bands, out);
        Ok(())
    }
}

pub(crate) fn decode_bands(mut reader: Reader<'_>) -> Result<Vec<Band>, Fault> {
    let mut bands = Vec::new();
    while !reader.is_empty() {
        let (kind, length) = (reader.u16()?, reader.u16()?);
        if !matches!(kind, DROP | REMARK) {
            return Err(Fault::BadBand);
        }
        if length != 16 {
            return Err(Fault::BadLength);
        }
        let (rate, burst) = (reader.u32()?, reader.u32()?);
        let level = reader.u8()?;
        reader.skip(3)?;
        let effect = if kind == DROP { BandEffect::Drop } else { BandEffect::Remark(level) };
        bands.push(Band { rate, burst, effect });
    }
    Ok(bands)
}

pub(crate) fn encode_bands(bands: &[Band], out: &mut Writer) {
    for band in bands {
        let (kind, level) = match band.effect {
            BandEffect::Drop => (DROP, 0),
            BandEffect::Remark(level) => (REMARK, level),
        };
        out.u16(kind);
        out.u16(16);
        out.u32(band.rate);
        out.u32(band.burst);
        out.u8(level);
        out.zeros(3);
    }
}
