//! Flow-control windows (RFC 9113 §5.2 and §6.9).

use crate::settings::INITIAL_WINDOW;

/// The client's window: the bytes that the server may send. It becomes negative if the client reduces the
/// initial window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow(pub(crate) i32);

impl SendWindow {
    /// Bytes that may be sent now.
    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts bytes that were sent, at most the available ones.
    pub(crate) fn sent(&mut self, length: usize) {
        self.0 -= length as i32;
    }

    /// Adds `by`, which may be negative. Returns `None` above the largest window, 2^31 - 1.
    pub(crate) fn add(&mut self, by: i32) -> Option<()> {
        self.0 = self.0.checked_add(by)?;
        Some(())
    }
}

/// The server's window: the bytes that the client may send. It is reopened when half of it was used, unless received
/// content is buffered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveWindow {
    available: i32,
    size: i32,
}

impl ReceiveWindow {
    pub(crate) fn new() -> Self {
        Self { available: INITIAL_WINDOW, size: INITIAL_WINDOW }
    }

    /// Counts received bytes. Returns `None` if they exceed the window.
    pub(crate) fn received(&mut self, length: usize) -> Option<()> {
        self.available -= length as i32;
        (self.available >= 0).then_some(())
    }

    /// Increases the size of the window to `size`, which is not less than before.
    pub(crate) fn enlarge(&mut self, size: i32) {
        self.size = size;
    }

    /// Opens the window if at most half is left. Returns the increment of the WINDOW_UPDATE frame.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.available > self.size / 2 {
            return None;
        }
        let by = self.size - self.available;
        self.available = self.size;
        Some(by as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §6.9.1 and §6.9.2.
    #[test]
    fn send_windows() {
        let mut window = SendWindow(100);
        window.sent(100);
        assert_eq!(window.available(), 0);
        window.add(-50).unwrap();
        assert_eq!(window.available(), 0);
        window.add(60).unwrap();
        assert_eq!(window.available(), 10);
        assert_eq!(window.add(i32::MAX), None);
    }

    #[test]
    fn receive_windows_open_at_half() {
        let mut window = ReceiveWindow::new();
        window.received(32_767).unwrap();
        assert_eq!(window.open(), None);
        window.received(1).unwrap();
        assert_eq!(window.open(), Some(32_768));
        window.received(65_535).unwrap();
        assert_eq!(window.received(1), None);
        let mut window = ReceiveWindow::new();
        window.enlarge(i32::MAX);
        assert_eq!(window.open(), Some(0x7fff_ffff - 65_535));
        assert_eq!(window.open(), None);
    }
}
