//! Bundles: changes that are done together or not at all.
//!
//! They are messages of OpenFlow 1.4, and of an extension of ONF (EXT-230) for 1.3.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::message::Header;
use super::numbered::{flags, numbered};
use super::port::RawProperty;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

numbered! {
    /// Step of a bundle.
    pub enum BundleStep: u16 {
        /// It is opened.
        OpenRequest = 0,
        /// It is open.
        OpenReply = 1,
        /// No more messages come.
        CloseRequest = 2,
        /// It is closed.
        CloseReply = 3,
        /// It is done.
        CommitRequest = 4,
        /// It has been done.
        CommitReply = 5,
        /// It is forgotten.
        DiscardRequest = 6,
        /// It has been forgotten.
        DiscardReply = 7,
    }
}

flags! {
    /// Options of a bundle.
    pub struct BundleFlags: u16 {
        /// All at once.
        const ATOMIC = 1;
        /// In order.
        const ORDERED = 1 << 1;
        /// At a time (OpenFlow 1.5).
        const TIME = 1 << 2;
    }
}

/// A step of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleControl {
    /// Its number.
    pub bundle: u32,
    /// The step.
    pub step: BundleStep,
    /// Its options.
    pub flags: BundleFlags,
    /// Its properties, as a time for it (OpenFlow 1.5).
    pub properties: Vec<RawProperty>,
}

impl BundleControl {
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<BundleControl, Fault> {
        let (bundle, step, flags) = (reader.u32()?, reader.u16()?, BundleFlags(reader.u16()?));
        let step = BundleStep::from_number(step).ok_or(Fault::BundleBadType)?;
        if !flags.is_known() {
            return Err(Fault::BundleBadFlags);
        }
        let mut properties = Vec::new();
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            properties.push(RawProperty { kind, value: value.rest().to_vec() });
        }
        Ok(BundleControl { bundle, step, flags, properties })
    }

    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u32(self.bundle);
        out.u16(self.step.number());
        out.u16(self.flags.0);
        self.properties.iter().try_for_each(|property| property.encode(out))
    }
}

/// A message for a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleAdd {
    /// The bundle's number.
    pub bundle: u32,
    /// Options of the bundle.
    pub flags: BundleFlags,
    /// The message, whole, with the version and the transaction of this one.
    pub message: Vec<u8>,
}

impl BundleAdd {
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        version: Version,
        xid: u32,
    ) -> Result<BundleAdd, Fault> {
        let bundle = reader.u32()?;
        reader.skip(2)?;
        let flags = BundleFlags(reader.u16()?);
        if !flags.is_known() {
            return Err(Fault::BundleBadFlags);
        }
        let mut reader = reader.with_fault(Fault::BundleBadLength);
        let mut header = reader;
        let inner = header.u8()?;
        header.skip(1)?;
        let length = usize::from(header.u16()?);
        if length < 8 {
            return Err(Fault::BundleBadLength);
        }
        if inner != version.number() {
            return Err(Fault::BundleBadVersion);
        }
        if header.u32()? != xid {
            return Err(Fault::BundleBadXid);
        }
        // Behind the message there may be properties, of experimenters alone.
        Ok(BundleAdd { bundle, flags, message: reader.take(length)?.to_vec() })
    }

    pub(crate) fn encode(
        &self,
        version: Version,
        xid: u32,
        out: &mut Writer,
    ) -> Result<(), Unencodable> {
        let inner = Header::read(&self.message);
        if inner.is_none_or(|inner| (inner.version, inner.xid) != (version.number(), xid)) {
            return Err(Unencodable::Absent(
                "a message of another version or transaction in a bundle",
            ));
        }
        out.u32(self.bundle);
        out.zeros(2);
        out.u16(self.flags.0);
        out.bytes(&self.message);
        Ok(())
    }
}
