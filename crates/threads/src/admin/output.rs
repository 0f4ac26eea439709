//! Text for a client, sent in pieces, without allocation.

use core::fmt::{Arguments, Write};

use crate::system::sys;

const BUFFER_BYTES: usize = 16 * 1024;
const MSG_NOSIGNAL: usize = 0x4000;

/// Collects text and sends it when the buffer is full. After a failure, it discards everything.
pub(super) struct Output {
    client: usize,
    failed: bool,
    length: usize,
    buffer: [u8; BUFFER_BYTES],
}

impl Output {
    pub(super) fn new(client: usize) -> Output {
        Output { client, failed: false, length: 0, buffer: [0; BUFFER_BYTES] }
    }

    pub(super) fn text(&mut self, text: &str) {
        for part in text.as_bytes().chunks(BUFFER_BYTES) {
            if self.length + part.len() > BUFFER_BYTES {
                self.flush();
            }
            self.buffer[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
        }
    }

    pub(super) fn print(&mut self, text: Arguments<'_>) {
        let _ = self.write_fmt(text);
    }

    /// Writes text as a string of JSON.
    pub(super) fn string(&mut self, text: Arguments<'_>) {
        self.text("\"");
        let _ = Escaped(self).write_fmt(text);
        self.text("\"");
    }

    pub(super) fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.length && !self.failed {
            let rest = &self.buffer[sent..self.length];
            let arguments = [self.client, rest.as_ptr() as usize, rest.len(), MSG_NOSIGNAL, 0, 0];
            match sys::call(sys::SYS_SENDTO, arguments) {
                count if count > 0 => sent += count as usize,
                _ => self.failed = true,
            }
        }
        self.length = 0;
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// Writes text in a string of JSON.
struct Escaped<'o>(&'o mut Output);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for character in text.chars() {
            match character {
                '"' | '\\' => self.0.print(format_args!("\\{character}")),
                '\0'..='\x1f' => self.0.print(format_args!("\\u{:04x}", u32::from(character))),
                _ => self.0.print(format_args!("{character}")),
            }
        }
        Ok(())
    }
}
