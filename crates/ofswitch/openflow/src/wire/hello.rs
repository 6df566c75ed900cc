//! Hello: the versions a side speaks.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::unencodable::Unencodable;
use super::version::Version;

const VERSION_BITMAP: u16 = 1;

/// First message of a side. Its greatest version is in the header of the message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The versions it speaks, a bit for each number, the first word's from 0 on; `None` without
    /// the element.
    pub bitmap: Option<Vec<u32>>,
}

impl Hello {
    /// A hello of a side that speaks these versions.
    #[must_use]
    pub fn from_versions(versions: &[Version]) -> Hello {
        let bits = versions.iter().fold(0, |bits, version| bits | 1 << version.number());
        Hello { bitmap: Some(vec![bits]) }
    }

    /// Reads the elements. Unknown ones are skipped, as the specification wants, and a malformed
    /// one ends them: the other side may have a later version.
    pub(crate) fn decode(mut reader: Reader<'_>) -> Hello {
        let mut hello = Hello::default();
        while let Ok((kind, mut body)) = Hello::element(&mut reader) {
            if kind == VERSION_BITMAP && hello.bitmap.is_none() {
                hello.bitmap = Some(std::iter::from_fn(|| body.u32().ok()).collect());
            }
        }
        hello
    }

    fn element<'a>(reader: &mut Reader<'a>) -> Result<(u16, Reader<'a>), Fault> {
        let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
        let body = reader.part(length.checked_sub(4).ok_or(Fault::BadLength)?)?;
        // The padding behind the last element may be missing.
        let padding = length.next_multiple_of(8) - length;
        reader.skip(padding.min(reader.len()))?;
        Ok((kind, body))
    }

    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        if let Some(bitmap) = &self.bitmap {
            let start = out.len();
            out.u16(VERSION_BITMAP);
            out.u16(0);
            bitmap.iter().for_each(|&word| out.u32(word));
            out.length(start + 2, start)?;
            out.pad(start);
        }
        Ok(())
    }
}
