//! Error messages.

use super::bytes::{Reader, Writer};
use super::fault::{Code, EXPERIMENTER_ERROR, Fault, NICIRA_ERROR};
use super::unencodable::Unencodable;
use super::version::Version;

/// Bytes of a faulty message that go back with the error; the specification wants 64.
pub const QUOTED: usize = 64;

/// Error message: the fault of a message, or the reason for a refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Its numbers.
    pub code: Code,
    /// The beginning of the message, or a text where hello failed.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// The answer to a message that was wrong.
    #[must_use]
    pub fn new(fault: Fault, version: Version, message: &[u8]) -> ErrorMessage {
        let data = message[..message.len().min(QUOTED)].to_vec();
        ErrorMessage { code: fault.code(version), data }
    }

    /// Returns the fault, where the numbers are known.
    #[must_use]
    pub fn fault(&self, version: Version) -> Option<Fault> {
        Fault::from_code(self.code, version)
    }

    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<ErrorMessage, Fault> {
        let (kind, code) = (reader.u16()?, reader.u16()?);
        let code = match kind {
            NICIRA_ERROR if version == Version::V10 && code == 0 => Code::Vendor {
                experimenter: reader.u32()?,
                kind: reader.u16()?,
                code: reader.u16()?,
            },
            EXPERIMENTER_ERROR if version != Version::V10 => {
                Code::Experimenter { experimenter: reader.u32()?, code }
            }
            _ => Code::Standard { kind, code },
        };
        Ok(ErrorMessage { code, data: reader.rest().to_vec() })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let old = version == Version::V10;
        let said = match self.code {
            Code::Standard { kind: NICIRA_ERROR, code: 0 } => !old,
            Code::Standard { kind: EXPERIMENTER_ERROR, .. } | Code::Vendor { .. } => old,
            Code::Experimenter { .. } => !old,
            Code::Standard { .. } => true,
        };
        if !said {
            return Err(Unencodable::Absent("an error of another version's form"));
        }
        match self.code {
            Code::Standard { kind, code } => {
                out.u16(kind);
                out.u16(code);
            }
            Code::Experimenter { experimenter, code } => {
                out.u16(EXPERIMENTER_ERROR);
                out.u16(code);
                out.u32(experimenter);
            }
            Code::Vendor { experimenter, kind, code } => {
                out.u16(NICIRA_ERROR);
                out.u16(0);
                out.u32(experimenter);
                out.u16(kind);
                out.u16(code);
            }
        }
        out.bytes(&self.data);
        Ok(())
    }
}
