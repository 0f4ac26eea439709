//! Sending stored batches to a mirror that lacks them.

use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sleep;

use crate::directory::names::segment_name;
use crate::error::{AppendError, MirrorLost};
use crate::format::frame::{self, FRAME_BYTES, HEAD_BYTES};
use crate::mirror::{LocalFuture, Mirror};
use crate::recovery::segments::Segment;
use crate::write::writer::{Writer, write_error};

/// The number of read errors after which a batch that the mirror needs again closes the journal.
const MAX_READ_ERRORS: u32 = 20;

/// Interval between a read error and the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

impl Writer {
    /// Opens the mirror, and sends all batches that it lacks. Repeats this if the mirror loses batches meanwhile.
    pub(crate) async fn open_mirror(&self, mirror: &dyn Mirror) -> Result<(), AppendError> {
        loop {
            match self.send_lacking(mirror).await {
                Err(_) if mirror.is_behind() => (),
                opened => return opened,
            }
        }
    }

    /// Waits until the mirror has stored a batch that is on the disk behind the journal's end. If the mirror has lost
    /// earlier batches, it gets them and this one again.
    ///
    /// The batch is not written to the disk again: that could fail, and a batch on the disk can no longer be refused,
    /// because a restart would recover it. For the same reason the journal closes if earlier batches remain unreadable.
    pub(crate) async fn mirrored(
        &self,
        batch: &Bytes,
        mirror: &dyn Mirror,
        mut stored: LocalFuture<'_, Result<(), MirrorLost>>,
    ) -> Result<(), AppendError> {
        let mut errors = 0;
        while let Err(lost) = stored.await {
            if !mirror.is_behind() {
                return Err(lost.into());
            }
            while let Err(error) = self.open_mirror(mirror).await {
                let AppendError::Disk { reason, .. } = error else { return Err(error) };
                errors += 1;
                if errors == MAX_READ_ERRORS {
                    return Err(AppendError::Broken { reason });
                }
                sleep(RETRY_INTERVAL).await;
            }
            stored = mirror.append(self.next_sequence(), batch.clone());
        }
        Ok(())
    }

    async fn send_lacking(&self, mirror: &dyn Mirror) -> Result<(), AppendError> {
        let from = mirror.open(self.salt, self.first_sequence(), self.next_sequence()).await?;
        let ends = self.segments.iter().skip(1).map(|next| next.sequence).chain([u64::MAX]);
        for (segment, end) in self.segments.iter().zip(ends) {
            if end > from {
                self.resend(segment, from, mirror).await?;
            }
        }
        Ok(mirror.complete().await?)
    }

    /// Sends the batches of a segment from number `from` on.
    async fn resend(
        &self,
        segment: &Segment,
        from: u64,
        mirror: &dyn Mirror,
    ) -> Result<(), AppendError> {
        let name = segment_name(segment.number);
        let file = self.directory.open_file(name.as_bytes(), false).await.map_err(write_error)?;
        let (mut at, mut number) = (HEAD_BYTES as u64, segment.sequence);
        while at < segment.end {
            let corrupt = || AppendError::Broken {
                reason: format!("{name}: byte {at}: the batch is corrupt"),
            };
            let head = file.read_at(at, FRAME_BYTES).await.map_err(write_error)?;
            let length = frame::length(&head, self.salt, number).ok_or_else(corrupt)?;
            if number >= from {
                let batch = file.read_at(at, length).await.map_err(write_error)?;
                frame::open(&batch, self.salt, number).ok_or_else(corrupt)?;
                mirror.append(number, batch.into()).await?;
            }
            (at, number) = (at + length as u64, number + 1);
        }
        Ok(())
    }
}
