//! Statistics and descriptions of meters.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::elapsed::Elapsed;
use crate::wire::fault::Fault;
use crate::wire::meter::{Band, MeterFlags, decode_bands, encode_bands};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Statistics of a meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterStats {
    /// Its number.
    pub meter: u32,
    /// Number of flows that use it.
    pub flows: u32,
    /// Packets metered.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Time it has existed.
    pub duration: Elapsed,
    /// Packets and bytes of each band.
    pub bands: Vec<(u64, u64)>,
}

impl MeterStats {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<MeterStats, Fault> {
        let meter = reader.u32()?;
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(6).ok_or(Fault::BadLength)?)?;
        body.skip(6)?;
        let flows = body.u32()?;
        let (packets, bytes) = (body.u64()?, body.u64()?);
        let duration = Elapsed::decode(&mut body)?;
        let mut bands = Vec::new();
        while !body.is_empty() {
            bands.push((body.u64()?, body.u64()?));
        }
        Ok(MeterStats { meter, flows, packets, bytes, duration, bands })
    }

    pub(super) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u32(self.meter);
        out.zeros(8);
        out.u32(self.flows);
        out.u64(self.packets);
        out.u64(self.bytes);
        self.duration.encode(out);
        for &(packets, bytes) in &self.bands {
            out.u64(packets);
            out.u64(bytes);
        }
        out.length(start + 4, start)
    }
}

/// Configuration of a meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterConfig {
    /// Its number.
    pub meter: u32,
    /// Unit of its rates, and its options.
    pub flags: MeterFlags,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterConfig {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<MeterConfig, Fault> {
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)?;
        let (flags, meter) = (MeterFlags(body.u16()?), body.u32()?);
        Ok(MeterConfig { meter, flags, bands: decode_bands(body)? })
    }

    pub(super) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        out.u16(self.flags.0);
        out.u32(self.meter);
        encode_bands(&self.bands, out);
        out.length(start, start)
    }
}

/// Features of meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterFeatures {
    /// Meters at most.
    pub greatest: u32,
    /// A bit for each type of band.
    pub band_types: u32,
    /// A bit for each flag.
    pub capabilities: MeterFlags,
    /// Bands of a meter at most.
    pub bands: u8,
    /// The greatest colour.
    pub colors: u8,
    /// More that meters can (OpenFlow 1.5).
    pub features: u32,
}

impl MeterFeatures {
    pub(super) fn decode(mut reader: Reader<'_>, version: Version) -> Result<MeterFeatures, Fault> {
        let (greatest, band_types) = (reader.u32()?, reader.u32()?);
        let capabilities = MeterFlags(reader.u32()? as u16);
        let (bands, colors) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let mut features = 0;
        // Open vSwitch ends here in OpenFlow 1.5, too.
        if version == Version::V15 && !reader.is_empty() {
            features = reader.u32()?;
            reader.skip(4)?;
        }
        reader.finish()?;
        Ok(MeterFeatures { greatest, band_types, capabilities, bands, colors, features })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) {
        out.u32(self.greatest);
        out.u32(self.band_types);
        out.u32(self.capabilities.0.into());
        out.u8(self.bands);
        out.u8(self.colors);
        out.zeros(2);
        if version == Version::V15 {
            out.u32(self.features);
            out.zeros(4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MultipartReply, Reply};
    use super::*;
    use crate::wire::Message;

    /// OpenFlow 1.5.1, section 7.3.5.15: two more words than before.
    #[test]
    fn features_of_meters_have_24_bytes_in_openflow_1_5() {
        let features = MeterFeatures {
            greatest: 0x1_0000,
            band_types: 6,
            capabilities: MeterFlags::KNOWN,
            bands: 16,
            colors: 0,
            features: 0,
        };
        let reply = MultipartReply { more: false, body: Reply::MeterFeatures(features) };
        let bytes = Message::MultipartReply(reply).encode(Version::V15, 0x0102_0304).expect("said");
        let expected = [
            [0x06, 0x13, 0x00, 0x28, 0x01, 0x02, 0x03, 0x04],
            [0x00, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
            [0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06],
            [0x00, 0x00, 0x00, 0x0f, 0x10, 0x00, 0x00, 0x00],
            [0; 8],
        ];
        assert_eq!(bytes, expected.concat());
    }
}
