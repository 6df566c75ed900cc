//! Files of a state: a text, and journals of the changes since.
//!
//! Beside `FILE` there are journals `FILE.journal.1`, `FILE.journal.2` and so on. The text's second
//! line names the journal that goes on from it; a journal goes on in the next one, unless the
//! header of that denies it. A new text is written beside the old one while changes go to a new
//! journal already, and takes its place in one step; then older journals are deleted. So a program
//! that is killed leaves a text and the journals behind it.
//!
//! A journal is a header and records:
//!
//! ```text
//! header  magic, 8 bytes │ number, 8 bytes │ 1: goes on from the one before, 1 byte │ checksum, 4 bytes
//! record  length, 4 bytes; bit 31: its change goes on in the next │ checksum, 4 bytes │ content
//! ```
//!
//! Numbers have their lower bytes first. The checksum is of the bytes before and behind it in the
//! header or record. Bytes behind the last record of a complete change were not written completely,
//! and are ignored.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::checksum::checksum;
use crate::switch::{Records, Saved};

const MAGIC: &[u8; 8] = b"flows 1\n";
const HEADER: usize = 8 + 8 + 1 + 4;

/// The bit of a record's length for a change that goes on in the next record.
const MORE: u32 = 1 << 31;

/// About how long a record is at most.
const RECORD: usize = 1 << 20;

/// The prefix of the line that names a journal.
const JOURNAL_LINE: &str = "# journal ";

/// The files of a state.
#[derive(Debug, Clone)]
pub(super) struct Files {
    path: PathBuf,
}

impl Files {
    pub(super) fn new(path: &Path) -> Files {
        Files { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(end);
        path.into()
    }

    fn journal(&self, number: u64) -> PathBuf {
        self.beside(&format!(".journal.{number}"))
    }

    /// The folder they are in.
    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Makes names of files that were created, renamed or deleted survive a failure of the machine.
    fn sync_names(&self) -> io::Result<()> {
        File::open(self.folder())?.sync_all()
    }

    /// Numbers of the journals that are there.
    fn journals(&self) -> io::Result<Vec<u64>> {
        let mut prefix = self.path.file_name().map(OsString::from).unwrap_or_default();
        prefix.push(".journal.");
        let prefix = prefix.into_encoded_bytes();
        let mut numbers = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let name = entry?.file_name().into_encoded_bytes();
            let number = name.strip_prefix(&*prefix).and_then(|number| str::from_utf8(number).ok());
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    /// A number greater than that of any journal that is there or was named.
    pub(super) fn next_number(&self) -> io::Result<u64> {
        let named = match File::open(&self.path) {
            Ok(file) => {
                // The line is among the first.
                let mut head = Vec::new();
                file.take(256).read_to_end(&mut head)?;
                named_journal(&String::from_utf8_lossy(&head))
            }
            Err(_) => None,
        };
        let last = self.journals()?.into_iter().chain(named).max();
        Ok(last.map_or(1, |last| last.saturating_add(1)))
    }

    /// Deletes journals before one. Journals that cannot be deleted do no harm: the text does not
    /// name them.
    pub(super) fn delete_before(&self, number: u64) {
        for old in self.journals().unwrap_or_default().into_iter().filter(|old| *old < number) {
            let _stays = fs::remove_file(self.journal(old));
        }
    }

    /// Writes a text, with the number of the journal that goes on from it. The file has the old
    /// content or the new, also after a crash. Returns its length.
    pub(super) fn write(&self, saved: &Saved, journal: u64) -> io::Result<u64> {
        let beside = self.beside(".new");
        let mut new = BufWriter::new(File::create(&beside)?);
        let (mut is_first, mut length) = (true, 0);
        saved.write(|text| {
            length += text.len() as u64;
            // Behind the line that names the file's format.
            match text.split_once('\n').filter(|_| std::mem::take(&mut is_first)) {
                Some((head, rest)) => write!(new, "{head}\n{JOURNAL_LINE}{journal}\n{rest}"),
                None => new.write_all(text.as_bytes()),
            }
        })?;
        new.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, &self.path)?;
        self.sync_names()?;
        Ok(length)
    }

    /// The text and the changes since; `None` where there is no text.
    pub(super) fn read(&self) -> io::Result<Option<(String, Vec<Vec<u8>>)>> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8(bytes)
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut changes = Vec::new();
        let Some(first) = named_journal(&text) else { return Ok(Some((text, changes))) };
        for number in first.. {
            let bytes = match fs::read(self.journal(number)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let Some(goes_on) = read_header(&bytes, number) else { break };
            if number != first && !goes_on {
                break;
            }
            let is_whole = read_records(&bytes[HEADER..], &mut changes);
            if !is_whole {
                break;
            }
        }
        Ok(Some((text, changes)))
    }
}

/// The journal that a text names, before its first line of content.
fn named_journal(text: &str) -> Option<u64> {
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    comments.find_map(|line| line.strip_prefix(JOURNAL_LINE)?.trim().parse().ok())
}

/// Returns true if a journal of a number goes on from the one before; `None` where its header is
/// not whole.
fn read_header(bytes: &[u8], number: u64) -> Option<bool> {
    let (content, sum) = bytes.get(..HEADER)?.split_at(HEADER - 4);
    let is_whole = content.starts_with(MAGIC)
        && content[8..16] == number.to_le_bytes()
        && *sum == checksum(&[content]).to_le_bytes();
    is_whole.then(|| content[16] != 0)
}

/// Adds complete changes, and returns true if nothing is behind them.
fn read_records(mut bytes: &[u8], changes: &mut Vec<Vec<u8>>) -> bool {
    let mut change = Vec::new();
    let mut is_complete = true;
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let [length @ .., _, _, _, _] = *head;
        let word = u32::from_le_bytes(length);
        let Some((content, rest)) = rest.split_at_checked((word & !MORE) as usize) else { break };
        if head[4..] != checksum(&[&length, content]).to_le_bytes() {
            break;
        }
        change.extend_from_slice(content);
        is_complete = word & MORE == 0;
        if is_complete {
            changes.push(std::mem::take(&mut change));
        }
        bytes = rest;
    }
    bytes.is_empty() && is_complete
}

/// A journal that is appended to.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    number: u64,
    /// Up to where complete changes are.
    length: u64,
}

impl Journal {
    /// Begins a journal. `goes_on` is set if the one before is complete up to here.
    pub(super) fn create(files: &Files, number: u64, goes_on: bool) -> io::Result<Journal> {
        let mut options = OpenOptions::new();
        let path = files.journal(number);
        let mut file = options.write(true).create(true).truncate(true).open(path)?;
        let mut header = MAGIC.to_vec();
        header.extend(number.to_le_bytes());
        header.push(goes_on.into());
        header.extend(checksum(&[&header]).to_le_bytes());
        file.write_all(&header)?;
        file.sync_all()?;
        files.sync_names()?;
        Ok(Journal { file, number, length: HEADER as u64 })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of records.
    pub(super) fn len(&self) -> u64 {
        self.length - HEADER as u64
    }

    /// Appends changes, and returns when they are on disk. After an error it has none of them.
    pub(super) fn append(&mut self, records: &Records) -> io::Result<()> {
        match self.try_append(records) {
            Ok(length) => {
                self.length += length;
                Ok(())
            }
            Err(error) => {
                // Later records have to follow the complete ones.
                self.file.set_len(self.length)?;
                io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.length))?;
                Err(error)
            }
        }
    }

    fn try_append(&mut self, records: &Records) -> io::Result<u64> {
        let (mut waiting, mut all) = (Vec::new(), 0);
        records.write(RECORD, |content, is_last| {
            let length = u32::try_from(content.len()).unwrap_or(MORE);
            if length >= MORE {
                return Err(io::Error::other("a change is too long for a journal"));
            }
            let head = (length | if is_last { 0 } else { MORE }).to_le_bytes();
            waiting.extend(head);
            waiting.extend(checksum(&[&head, content]).to_le_bytes());
            waiting.extend_from_slice(content);
            all += 8 + u64::from(length);
            if waiting.len() >= RECORD {
                self.file.write_all(&waiting)?;
                waiting.clear();
            }
            Ok(())
        })?;
        self.file.write_all(&waiting)?;
        self.file.sync_data()?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
