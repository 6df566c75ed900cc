//! Configurations in archive form, as Click's tools write them: an `ar` file in which the member
//! `config` is the configuration, beside the members of other tools (`elementmap.xml`, packages).

use thiserror::Error;

/// First bytes of an archive.
const MAGIC: &[u8] = b"!<arch>\n";
/// Length of a member's header, and where in it the size is.
const HEADER: usize = 60;
const SIZE: std::ops::Range<usize> = 48..58;
/// Last bytes of a header.
const END: &[u8] = b"`\n";

/// The reason why an archive cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum ArchiveError {
    #[error("not an archive")]
    Empty,
    #[error("bad archive: missing header magic number")]
    Header,
    #[error("bad size in archive")]
    Size,
    #[error("bad long name in archive")]
    Name,
    #[error("truncated archive, {0} bytes short")]
    Short(usize),
    #[error("truncated archive")]
    Truncated,
}

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// As it was, to be written again.
    header: [u8; HEADER],
    pub(crate) data: Vec<u8>,
}

/// Returns true if `bytes` are an archive.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Takes an archive apart. Names of more than 16 bytes are understood as GNU's
/// and as BSD's `ar` write them.
pub(crate) fn members(bytes: &[u8]) -> Result<Vec<Member>, ArchiveError> {
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    if rest.is_empty() {
        return Err(ArchiveError::Empty);
    }
    let (mut members, mut names) = (Vec::new(), Vec::new());
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER>() {
        if !header.ends_with(END) {
            return Err(ArchiveError::Header);
        }
        let size = number(&header[SIZE]).ok_or(ArchiveError::Size)?;
        let short = || ArchiveError::Short(size - behind.len());
        let data = behind.get(..size).ok_or_else(short)?;
        // Members begin at even places.
        rest = behind.get(size + size % 2..).unwrap_or_default();
        match &header[..16] {
            [b'/', b'/', ..] => names = data.to_vec(),
            field => members.push(member(field, *header, data, &names)?),
        }
    }
    if rest.is_empty() { Ok(members) } else { Err(ArchiveError::Truncated) }
}

fn member(
    field: &[u8],
    header: [u8; HEADER],
    data: &[u8],
    names: &[u8],
) -> Result<Member, ArchiveError> {
    let wrong = ArchiveError::Name;
    let (name, data) = if let Some(length) = field.strip_prefix(b"#1/") {
        data.split_at_checked(number(length).ok_or(wrong)?).ok_or(wrong)?
    } else if let [b'/', place @ ..] = field
        && place[0].is_ascii_digit()
    {
        let from = number(place).and_then(|at| names.get(at..)).ok_or(wrong)?;
        (first_word(from), data)
    } else {
        (first_word(field), data)
    };
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(Member { name, header, data: data.to_vec() })
}

/// The bytes in front of the first slash or space.
fn first_word(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'/' || byte.is_ascii_whitespace());
    &bytes[..end.unwrap_or(bytes.len())]
}

/// A decimal number with spaces behind it.
fn number(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(field).ok()?.trim_end().parse().ok()
}

/// Writes an archive of these members, whose names are of at most 15 bytes, as those of Click's
/// tools are.
pub(crate) fn archive(members: &[Member]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for Member { name, header, data } in members {
        let mut header = *header;
        let mut body = Vec::new();
        if header.starts_with(b"#1/") || header[0] == b'/' {
            // The length of the name, which is then in front of the data.
            header[..16]
                .copy_from_slice(format!("{:<16}", format!("#1/{}", name.len())).as_bytes());
            body.extend(name.bytes());
        }
        body.extend(data);
        header[SIZE].copy_from_slice(format!("{:<10}", body.len()).as_bytes());
        out.extend(header);
        out.extend(&body);
        if body.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, size: &str) -> String {
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 1_795_359_973, 0, 0, 644)
    }

    fn read(text: &str) -> Result<Vec<(String, String)>, ArchiveError> {
        let members = members(text.as_bytes())?;
        let text = |data| String::from_utf8(data).unwrap();
        Ok(members.into_iter().map(|member| (member.name, text(member.data))).collect())
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.into(), data.into())
    }

    #[test]
    fn members_are_found_and_written_again() {
        let archive_text =
            format!("!<arch>\n{}Idle;{}\n{}ab", header("config", "5"), "", header("x/", "2"));
        assert_eq!(read(&archive_text).unwrap(), [pair("config", "Idle;"), pair("x", "ab")]);
        let members = members(archive_text.as_bytes()).unwrap();
        assert_eq!(archive(&members), archive_text.as_bytes());
    }

    #[test]
    fn long_names() {
        let gnu = format!(
            "!<arch>\n{}first_long_name/\nsecond_long_name/\n\n{}Idle",
            header("//", "35"),
            header("/17", "4")
        );
        assert_eq!(read(&gnu).unwrap(), [pair("second_long_name", "Idle")]);
        let bsd = format!("!<arch>\n{}a name of its ownIdle", header("#1/17", "21"));
        assert_eq!(read(&bsd).unwrap(), [pair("a name of its own", "Idle")]);
        for text in [gnu, bsd] {
            let once = members(text.as_bytes()).unwrap();
            let again = members(&archive(&once)).unwrap();
            assert_eq!((&again[0].name, &again[0].data), (&once[0].name, &once[0].data));
        }
    }

    #[test]
    fn faults_of_an_archive_are_named() {
        let short = format!("!<arch>\n{}Idle", header("config", "9"));
        let tail = format!("!<arch>\n{}IdleX", header("config", "4"));
        let size = format!("!<arch>\n{}Idle", header("config", "x"));
        let name = format!("!<arch>\n{}Idle", header("/3", "4"));
        let magic = format!("!<arch>\n{}", header("config", "0").replace('`', "x"));
        for (text, error) in [
            ("!<arch>\n", "not an archive"),
            (&*short, "truncated archive, 5 bytes short"),
            (&tail, "truncated archive"),
            (&size, "bad size in archive"),
            (&name, "bad long name in archive"),
            (&magic, "bad archive: missing header magic number"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), error, "{text}");
        }
    }
}
