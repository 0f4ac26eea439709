//! Sending stored batches to a mirror that lacks them.

use crate::directory::names::segment_name;
use crate::error::AppendError;
use crate::format::frame::{self, FRAME_BYTES, HEAD_BYTES};
use crate::mirror::Mirror;
use crate::recovery::segments::Segment;
use crate::write::writer::{Writer, refused};

impl Writer {
    /// Opens the mirror, and sends all batches that it lacks.
    pub(crate) async fn open_mirror(&self, mirror: &dyn Mirror) -> Result<(), AppendError> {
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
        let file = self.directory.open_file(name.as_bytes(), false).await.map_err(refused)?;
        let (mut at, mut number) = (HEAD_BYTES as u64, segment.sequence);
        while at < segment.end {
            let corrupt =
                || AppendError::Broken { what: format!("{name}: byte {at}: the batch is corrupt") };
            let head = file.read_at(at, FRAME_BYTES).await.map_err(refused)?;
            let length = frame::length(&head, self.salt, number).ok_or_else(corrupt)?;
            if number >= from {
                let batch = file.read_at(at, length).await.map_err(refused)?;
                frame::open(&batch, self.salt, number).ok_or_else(corrupt)?;
                mirror.append(number, batch.into()).await?;
            }
            (at, number) = (at + length as u64, number + 1);
        }
        Ok(())
    }
}
