//! Bytes of the caller that a driver owns temporarily.
//!
//! [`Bytes::from_owner`] attaches a destructor of the caller to bytes. The driver drops them in the middle of its work,
//! where a panic would skip the rest, such as other completions of the same batch or the result of a helper thread. So
//! the drivers store bytes in the types of this file, which catch panics of these destructors.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use crate::Payload;

/// Bytes whose destructor may panic. Dropping this catches the panic.
#[derive(Default)]
pub(crate) struct UserBytes(Option<Bytes>);

impl From<Bytes> for UserBytes {
    fn from(bytes: Bytes) -> Self {
        Self(Some(bytes))
    }
}

impl Deref for UserBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Drop for UserBytes {
    fn drop(&mut self) {
        let bytes = &mut self.0;
        if bytes.is_some()
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(bytes.take())))
        {
            discard(panic);
        }
    }
}

/// Drops a panic's payload. If that panics as well, the second payload is leaked.
#[cold]
fn discard(panic: Box<dyn std::any::Any + Send>) {
    if let Err(nested) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(nested);
    }
}

/// The bytes of a send in flight.
pub(crate) enum Outgoing {
    Payload { head: Vec<u8>, body: UserBytes },
    Parts(Box<[UserBytes]>),
}

/// The maximum number of parts in one system call.
pub(crate) const MAX_PARTS: usize = 16;

impl Default for Outgoing {
    fn default() -> Self {
        Payload::default().into()
    }
}

impl From<Payload> for Outgoing {
    fn from(Payload { head, body }: Payload) -> Self {
        Self::Payload { head, body: body.into() }
    }
}

impl From<Vec<Bytes>> for Outgoing {
    fn from(parts: Vec<Bytes>) -> Self {
        Self::Parts(parts.into_iter().map(UserBytes::from).collect())
    }
}

impl Outgoing {
    /// The number of bytes in all parts.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Payload { head, body } => head.len() + body.len(),
            Self::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The head after its first `sent` bytes, if there is no body. This takes fewer steps than [`rest`](Self::rest).
    #[inline]
    pub(crate) fn only_head(&self, sent: usize) -> Option<&[u8]> {
        match self {
            Self::Payload { head, body } if body.is_empty() => head.get(sent..),
            _ => None,
        }
    }

    /// The non-empty parts after the first `sent` bytes, at most [`MAX_PARTS`] of them.
    pub(crate) fn rest(&self, mut sent: usize) -> impl Iterator<Item = &[u8]> {
        let (payload, slices) = match self {
            Self::Payload { head, body } => ([&**head, &**body], &[][..]),
            Self::Parts(parts) => ([&[][..]; 2], &**parts),
        };
        let parts = payload.into_iter().chain(slices.iter().map(Deref::deref));
        let rest = parts.filter_map(move |part| {
            let skipped = sent.min(part.len());
            sent -= skipped;
            (skipped < part.len()).then(|| &part[skipped..])
        });
        rest.take(MAX_PARTS)
    }

    /// The head, cleared for reuse.
    pub(crate) fn into_head(self) -> Vec<u8> {
        match self {
            Self::Payload { mut head, .. } => {
                head.clear();
                head
            }
            Self::Parts(_) => Vec::new(),
        }
    }
}
