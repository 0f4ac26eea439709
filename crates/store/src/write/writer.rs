//! The journal's end, to which batches are appended, each with one write and one sync.
//!
//! A batch is applied to the index only after it is on disk, so a failed batch has no effect. A failed write may be
//! retried at the same position with the same number. A failed sync must not be retried: the kernel reports it once,
//! and drops the dirty pages (Rebello et al., ATC 2020). A failed sync therefore closes the journal.

use std::collections::VecDeque;
use std::io;

use phalanx::fs::{Dir, File};

use crate::directory::names::segment_name;
use crate::directory::reserve::Reserve;
use crate::error::AppendError;
use crate::format::entry::{Entry, records};
use crate::format::frame::{self, FRAME_BYTES, HEAD_BYTES, Head};
use crate::index::{Index, Place};
use crate::mirror::Mirror;
use crate::options::{MAX_BATCH_BYTES, Options};
use crate::recovery::position::{Position, PositionFile};
use crate::recovery::replay::Replay;
use crate::recovery::segments::Segment;
use crate::write::cleaning::Cleaning;

/// The end of the journal, used by one operation at a time.
pub(crate) struct Writer {
    pub(crate) directory: Dir,
    /// Held while the directory is in use.
    _lock: Option<std::fs::File>,
    pub(crate) options: Options,
    pub(crate) salt: u64,
    pub(crate) index: Index,
    /// The valid segments, oldest first.
    pub(crate) segments: VecDeque<Segment>,
    /// The last segment, if this process started it.
    file: Option<File>,
    next_segment: u64,
    next_sequence: u64,
    /// Whether to start a new segment even if the last one is short.
    pub(crate) must_rotate: bool,
    /// Cleaned segments, which the next header will exclude.
    pub(crate) obsolete: Vec<u64>,
    /// Excluded segments, whose files may be deleted.
    removable: Vec<u64>,
    pub(crate) cleaning: Cleaning,
    pub(crate) reserve: Reserve,
    position: PositionFile,
    /// Whether the last commit failed.
    has_failed: bool,
    broken: Option<String>,
}

/// The size of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) live: u64,
}

impl Writer {
    pub(crate) fn new(
        directory: Dir,
        lock: Option<std::fs::File>,
        options: Options,
        salt: u64,
        replay: Replay,
    ) -> Self {
        Self {
            directory,
            _lock: lock,
            reserve: Reserve::new(options.reserve_bytes),
            options,
            salt: replay.salt.unwrap_or(salt),
            index: replay.index,
            segments: replay.segments.into(),
            file: None,
            next_segment: replay.next_segment,
            next_sequence: replay.next_sequence,
            must_rotate: false,
            obsolete: Vec::new(),
            removable: Vec::new(),
            cleaning: Cleaning::default(),
            position: PositionFile::default(),
            has_failed: false,
            broken: None,
        }
    }

    /// Maximum size of a batch, unless a single entry is longer. With a reserve it is limited to a segment,
    /// because the reserve could not clean a longer one.
    pub(crate) fn batch_bytes(&self) -> usize {
        let segment = usize::try_from(self.options.segment_bytes).unwrap_or(usize::MAX);
        if self.reserve.bytes > 0 { MAX_BATCH_BYTES.min(segment) } else { MAX_BATCH_BYTES }
    }

    /// Whether an entry may be stored, after `before` bytes of the same batch.
    pub(crate) fn admit(&self, entry: &Entry, before: usize) -> Result<(), AppendError> {
        if let Some(reason) = &self.broken {
            return Err(AppendError::Broken { reason: reason.clone() });
        }
        let bytes = self.index.live() + (before + entry.len()) as u64;
        if entry.adds_state() && bytes > self.options.max_bytes {
            return Err(AppendError::Full { bytes: self.index.live() });
        }
        Ok(())
    }

    /// Writes and syncs entries together with the live records of the part to clean, atomically.
    pub(crate) async fn commit(
        &mut self,
        entries: &[Entry],
        mirror: Option<&dyn Mirror>,
    ) -> Result<(), AppendError> {
        if let Some(reason) = &self.broken {
            return Err(AppendError::Broken { reason: reason.clone() });
        }
        let mut batch = vec![0; FRAME_BYTES];
        let length = entries.iter().map(Entry::len).sum::<usize>();
        // Including the frame's header, if there are entries.
        let written = if entries.is_empty() { 0 } else { FRAME_BYTES + length };
        // After a failure, commit without cleaning, which needs less space.
        let part = if self.has_failed { None } else { self.cleaning.part(written) };
        self.has_failed = true;
        if let Some(part) = part {
            self.rewrite_live(part, &mut batch);
        }
        let rewritten = batch.len();
        entries.iter().for_each(|entry| batch.extend_from_slice(entry.bytes()));
        if batch.len() > FRAME_BYTES {
            self.write(batch, mirror).await?;
        }
        self.has_failed = false;
        self.cleaning.add_debt(written);
        if let Some(part) = part {
            self.advance(part);
            self.cleaning.rewritten += (rewritten - FRAME_BYTES) as u64;
        }
        Ok(())
    }

    async fn write(
        &mut self,
        mut batch: Vec<u8>,
        mirror: Option<&dyn Mirror>,
    ) -> Result<(), AppendError> {
        let file = self.current().await.map_err(write_error)?;
        let place = self.segments.back().expect("started before");
        let (base, end) = (place.base, place.end);
        frame::seal(&mut batch, self.salt, self.next_sequence);
        let batch = phalanx::net::Bytes::from(batch);
        file.write_at(end, batch.clone()).await.map_err(write_error)?;
        // Sent after the write, because a batch that did not fit on the disk is not written again.
        let sent = mirror.map(|mirror| (mirror, mirror.append(self.next_sequence, batch.clone())));
        if let Err(error) = file.sync_data().await {
            let reason = error.to_string();
            self.broken = Some(reason.clone());
            return Err(AppendError::Broken { reason });
        }
        if let Some((mirror, stored)) = sent
            && let Err(error) = self.mirrored(&batch, mirror, stored).await
        {
            if let AppendError::Broken { reason } | AppendError::Mirror { reason } = &error {
                self.broken = Some(reason.clone());
            }
            return Err(error);
        }
        let first = base + end + FRAME_BYTES as u64;
        for (record, range) in records(&batch[FRAME_BYTES..]) {
            let place = Place { at: first + range.start as u64, length: range.len() as u32 };
            self.index.apply(&record.expect("built from records"), place);
        }
        self.index.end_batch();
        self.segments.back_mut().expect("as above").end += batch.len() as u64;
        self.next_sequence += 1;
        Ok(())
    }

    /// The file to write to: starts a new segment if there is none, or the last one is full.
    async fn current(&mut self) -> io::Result<File> {
        let long = self.segments.back().is_none_or(|last| last.end >= self.options.segment_bytes);
        match &self.file {
            Some(file) if !long && !self.must_rotate => Ok(file.clone()),
            _ => self.begin().await,
        }
    }

    /// Starts a segment if one is due. If that fails, the next entry starts it.
    pub(crate) async fn rotate(&mut self) {
        if self.must_rotate && self.broken.is_none() {
            let _ = self.begin().await;
        }
    }

    /// Starts a segment. After a failure it may be repeated with the same file.
    async fn begin(&mut self) -> io::Result<File> {
        let number = self.next_segment;
        let last = self.segments.back();
        let (next_session, next_message) = self.index.next();
        let head = Head {
            salt: self.salt,
            number,
            base: last.map_or(0, |last| last.base + last.end),
            previous: last.map_or(0, |last| last.number),
            previous_end: last.map_or(0, |last| last.end),
            first: self.segments.front().map_or(number, |first| first.number),
            sequence: self.next_sequence,
            next_session: next_session.0,
            next_message: next_message.0,
        };
        let file = self.directory.create_private(segment_name(number).as_bytes()).await?;
        file.write_at(0, head.encode().to_vec()).await?;
        file.sync_all().await?;
        self.directory.sync().await?;
        let Head { base, sequence, .. } = head;
        self.segments.push_back(Segment { number, base, end: HEAD_BYTES as u64, sequence });
        self.next_segment += 1;
        self.file = Some(file.clone());
        self.must_rotate = false;
        self.removable.append(&mut self.obsolete);
        Ok(file)
    }

    /// Writes the position of the journal's end, for the next start.
    pub(crate) async fn put_position(&mut self) {
        if let Some(last) = self.segments.back().filter(|_| self.broken.is_none()) {
            let (salt, next_sequence) = (self.salt, self.next_sequence);
            let position = Position { salt, segment: last.number, end: last.end, next_sequence };
            self.position.put(position, &self.directory).await;
        }
    }

    /// Takes the segments whose files may be deleted.
    pub(crate) fn take_removable(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.removable)
    }

    /// The number of the first stored batch.
    pub(crate) fn first_sequence(&self) -> u64 {
        self.segments.front().map_or(self.next_sequence, |first| first.sequence)
    }

    /// The number of the next batch.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    pub(crate) fn extent(&self) -> Extent {
        let bytes = self.segments.iter().map(|segment| segment.end).sum();
        Extent { segments: self.segments.len() as u64, bytes, live: self.index.live() }
    }
}

pub(crate) fn write_error(error: io::Error) -> AppendError {
    AppendError::Disk { kind: error.kind(), reason: error.to_string() }
}
