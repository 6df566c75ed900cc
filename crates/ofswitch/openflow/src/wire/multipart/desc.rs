//! Description of a switch as text.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;

const LONG: usize = 256;
const SHORT: usize = 32;

/// Description of a switch; each text of at most 255 bytes, the serial number of 31.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its manufacturer.
    pub manufacturer: String,
    /// The hardware.
    pub hardware: String,
    /// The software.
    pub software: String,
    /// A number of it.
    pub serial: String,
    /// Its name in text.
    pub datapath: String,
}

impl Description {
    pub(super) fn decode(mut reader: Reader<'_>) -> Result<Description, Fault> {
        let description = Description {
            manufacturer: reader.text(LONG)?,
            hardware: reader.text(LONG)?,
            software: reader.text(LONG)?,
            serial: reader.text(SHORT)?,
            datapath: reader.text(LONG)?,
        };
        reader.finish()?;
        Ok(description)
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.text(&self.manufacturer, LONG);
        out.text(&self.hardware, LONG);
        out.text(&self.software, LONG);
        out.text(&self.serial, SHORT);
        out.text(&self.datapath, LONG);
    }
}
