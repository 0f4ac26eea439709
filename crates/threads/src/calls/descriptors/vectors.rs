//! Calls on several buffers: `readv`, `writev`, `sendmsg`, `recvmsg`, and complete messages (`MSG_WAITALL`).
//!
//! # Safety
//!
//! The caller passes buffers and descriptions that the C library may read and write.

use crate::calls::descriptors::pipes;
use crate::calls::descriptors::pipes::is_refused;
use crate::calls::descriptors::repeat::{descriptor_events, repeat, repeat_until_sent, send_part};
use crate::calls::descriptors::sockets::{MSG_FASTOPEN, NEVER_WAITS, connects, has_minimum};
use crate::calls::descriptors::turns::{NOT_SUPPORTED, receive_unattempted};
use crate::calls::descriptors::wait::{Ready, convertible, deadline, wait};
use crate::readiness::{records, watch};
use crate::schedule::home::go_home;
use crate::system::flags::{self, SO_RCVTIMEO, SO_TYPE, SOCK_STREAM, is_nonblocking};
use crate::system::{real, sys};
use crate::thread::current;
use crate::waiting::key::{HUP, IN, NVAL, RDHUP};

const MSG_PEEK: i32 = 2;
const MSG_DONTWAIT: i32 = 0x40;
const MSG_WAITALL: i32 = 0x100;
const RWF_NOWAIT: usize = 8;
const NOT_A_SOCKET: isize = -(sys::ENOTSOCK as isize);

/// Messages of more buffers are sent at home.
const MAX_BUFFERS: usize = 64;

/// A buffer (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Buffer {
    data: *mut u8,
    length: usize,
}

/// A message (`struct msghdr`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Message {
    name: *mut u8,
    name_length: u32,
    buffers: *const Buffer,
    count: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// The head of a part of the ancillary data (`struct cmsghdr`).
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
}

/// Level and kind of descriptors (`SOL_SOCKET`, `SCM_RIGHTS`).
const RIGHTS: (i32, i32) = (1, 1);

impl Message {
    fn of(buffers: *const u8, count: i32) -> Message {
        let empty = core::ptr::null_mut();
        let buffers = buffers.cast();
        let count = count.max(0) as usize;
        Message {
            name: empty,
            name_length: 0,
            buffers,
            count,
            control: empty,
            control_length: 0,
            flags: 0,
        }
    }

    fn length(&self) -> usize {
        (0..self.count)
            .map(|at| unsafe { (*self.buffers.add(at)).length })
            .fold(0, usize::saturating_add)
    }

    /// Distrusts the descriptors that the message passes to another process.
    fn share_passed(&self) {
        let mut at = 0;
        while self.control_length.saturating_sub(at) >= size_of::<Control>() {
            let header = unsafe { self.control.add(at).cast::<Control>().read_unaligned() };
            let length = header.length.min(self.control_length - at);
            if length < size_of::<Control>() {
                return;
            }
            let passed = if (header.level, header.kind) == RIGHTS { length } else { 0 };
            for entry in (at + size_of::<Control>()..at + passed).step_by(size_of::<i32>()) {
                watch::share(unsafe { self.control.add(entry).cast::<i32>().read_unaligned() });
            }
            at += length.next_multiple_of(size_of::<usize>());
        }
    }

    /// The buffers that are left after `sent` bytes, and their number.
    fn rest(&self, sent: usize) -> ([Buffer; MAX_BUFFERS], usize) {
        let mut rest = [Buffer { data: core::ptr::null_mut(), length: 0 }; MAX_BUFFERS];
        let (mut count, mut skipped) = (0, sent);
        for at in 0..self.count {
            let Buffer { data, length } = unsafe { *self.buffers.add(at) };
            let skip = skipped.min(length);
            skipped -= skip;
            if skip < length {
                rest[count] = Buffer { data: data.wrapping_add(skip), length: length - skip };
                count += 1;
            }
        }
        (rest, count)
    }

    /// Sends what is left after `sent` bytes. Ancillary data belongs to the first part.
    fn send_rest(&self, descriptor: i32, sent: usize, flags: usize) -> isize {
        let (rest, count) = self.rest(sent);
        let mut message = Message { buffers: rest.as_ptr(), count, ..*self };
        if sent > 0 {
            message.control_length = 0;
        }
        sys::call(
            sys::SYS_SENDMSG,
            [descriptor as usize, &raw const message as usize, flags, 0, 0, 0],
        )
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn readv(descriptor: i32, buffers: *const u8, count: i32) -> isize {
    let native = || unsafe { real::readv(descriptor, buffers, count) };
    let Some(thread) = convertible().filter(|_| count > 0) else { return native() };
    if has_minimum(thread, descriptor) {
        return native();
    }
    let mut message = Message::of(buffers, count);
    // The kernel does not access the file in this case.
    if message.length() == 0 {
        return native();
    }
    let receive = [descriptor as usize, &raw mut message as usize, MSG_DONTWAIT as usize, 0, 0, 0];
    let preadv =
        [descriptor as usize, buffers as usize, count as usize, usize::MAX, usize::MAX, RWF_NOWAIT];
    let mut result =
        repeat(thread, descriptor, IN, SO_RCVTIMEO, || sys::call(sys::SYS_RECVMSG, receive));
    if result == Some(NOT_A_SOCKET) {
        if sys::is_stored(descriptor) {
            return native();
        }
        result = repeat(thread, descriptor, IN, 0, || sys::call(sys::SYS_PREADV2, preadv));
        if result == Some(NOT_SUPPORTED) {
            return receive_unattempted(thread, descriptor, native);
        }
        result = result.filter(|result| !is_refused(*result));
    }
    result.map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn writev(descriptor: i32, buffers: *const u8, count: i32) -> isize {
    let native = || unsafe { real::writev(descriptor, buffers, count) };
    let message = Message::of(buffers, count);
    // The kernel does not access the file in this case.
    if message.length() == 0 {
        return native();
    }
    let result = match unsafe { send_all(descriptor, &message, 0) } {
        Some(NOT_A_SOCKET) => pipes::repeat(current(), descriptor, message.length(), |sent| {
            let (rest, count) = message.rest(sent);
            pipes::attempt(descriptor, rest.as_ptr() as usize, count)
        }),
        result => result,
    };
    result.map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sendmsg(descriptor: i32, message: *const u8, flags: i32) -> isize {
    let parts = unsafe { message.cast::<Message>().as_ref() };
    parts.inspect(|parts| parts.share_passed());
    let sent = parts.and_then(|parts| unsafe { send_all(descriptor, parts, flags) });
    sent.map_or_else(|| unsafe { real::sendmsg(descriptor, message, flags) }, sys::result)
}

/// Sends all buffers to a socket. Returns `None` if the C library must do it.
unsafe fn send_all(descriptor: i32, message: &Message, flags: i32) -> Option<isize> {
    let thread = convertible().filter(|_| flags & MSG_DONTWAIT == 0 && message.count > 0)?;
    if message.count > MAX_BUFFERS {
        if !is_nonblocking(descriptor) {
            go_home(thread);
        }
        return None;
    }
    if flags & MSG_FASTOPEN != 0 {
        go_home(thread);
        return None;
    }
    let attempt = |sent| {
        let send = |flags| message.send_rest(descriptor, sent, flags);
        send_part(thread, descriptor, (sent, flags), send)
    };
    let data = (core::ptr::null(), message.length());
    let result = repeat_until_sent(thread, descriptor, data, None, attempt);
    result.filter(|result| !connects(thread, descriptor, *result))
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn recvmsg(descriptor: i32, message: *mut u8, flags: i32) -> isize {
    let native = || unsafe { real::recvmsg(descriptor, message, flags) };
    let Some(thread) = convertible().filter(|_| flags & NEVER_WAITS == 0) else { return native() };
    if has_minimum(thread, descriptor) {
        return native();
    }
    if flags & MSG_WAITALL != 0 {
        go_home(thread);
        return native();
    }
    let arguments =
        [descriptor as usize, message as usize, (flags | MSG_DONTWAIT) as usize, 0, 0, 0];
    let attempt = || sys::call(sys::SYS_RECVMSG, arguments);
    repeat(thread, descriptor, IN, SO_RCVTIMEO, attempt).map_or_else(native, sys::result)
}

/// Receives until a buffer is full, as a blocking call with `MSG_WAITALL` does on a stream. Returns `None` if the C
/// library must do it.
pub(super) fn receive_all(
    descriptor: i32,
    data: *mut u8,
    length: usize,
    flags: i32,
) -> Option<isize> {
    let thread = convertible()?;
    if flags & MSG_PEEK != 0 || flags::option(descriptor, SO_TYPE) != Some(SOCK_STREAM) {
        go_home(thread);
        return None;
    }
    let attempt = |received: usize| {
        let (rest, left) = (data as usize + received, length - received);
        let flags = (flags & !MSG_WAITALL | MSG_DONTWAIT) as usize;
        sys::call(sys::SYS_RECVFROM, [descriptor as usize, rest, left, flags, 0, 0])
    };
    let is_plain = records::is_plain(descriptor);
    let deadline = if is_plain { None } else { deadline(descriptor, SO_RCVTIMEO) };
    let first = repeat(thread, descriptor, IN, SO_RCVTIMEO, || attempt(0))?;
    if first <= 0 {
        return Some(first);
    }
    let mut received = first as usize;
    // If the rest fails, the received part is the result, and the next call reports the failure.
    while received < length {
        records::begin_attempt(descriptor);
        let part = match probe(descriptor) {
            Readable::Bytes => attempt(received),
            Readable::Nothing => 0,
            Readable::End => break,
            Readable::Error => {
                go_home(thread);
                let (rest, left) = (data.wrapping_add(received), length - received);
                let none = core::ptr::null_mut();
                let part =
                    unsafe { real::recvfrom(descriptor, rest, left, flags, none, none.cast()) };
                received += part.max(0) as usize;
                break;
            }
        };
        if part > 0 {
            received += part as usize;
        } else if (!is_plain && is_nonblocking(descriptor))
            || wait(thread, descriptor, IN, deadline) != Ready::Retry
        {
            break;
        }
    }
    Some(received as isize)
}

/// The result that an attempt to receive from a stream would have.
enum Readable {
    Bytes,
    Nothing,
    /// The end of the stream, or a failure. An attempt would consume the failure, which the next call has to report.
    End,
    /// A failure that does not end the stream, or a message in the error queue. The kernel continues to wait for bytes
    /// then.
    Error,
}

fn probe(descriptor: i32) -> Readable {
    const FIONREAD: usize = 0x541b;
    match descriptor_events(descriptor, IN | RDHUP) {
        0 => Readable::Nothing,
        IN => Readable::Bytes,
        events => {
            let mut bytes = 0_u32;
            let arguments = [descriptor as usize, FIONREAD, &raw mut bytes as usize, 0, 0, 0];
            sys::call(sys::SYS_IOCTL, arguments);
            match events & (RDHUP | HUP | NVAL) {
                _ if bytes > 0 => Readable::Bytes,
                0 => Readable::Error,
                _ => Readable::End,
            }
        }
    }
}
