//! Keys of the parking table: addresses of objects, and descriptors, with the events for which threads wait.

pub(crate) const IN: u32 = 1;
pub(crate) const PRI: u32 = 2;
pub(crate) const OUT: u32 = 4;
/// The connection has ended.
pub(crate) const HUP: u32 = 0x10;
/// The descriptor is closed.
pub(crate) const NVAL: u32 = 0x20;
/// The peer has closed its sending direction.
pub(crate) const RDHUP: u32 = 0x2000;

/// The key of a descriptor in the parking table, which is not a valid address.
pub(crate) fn key(descriptor: i32) -> usize {
    1 << 63 | (descriptor as usize) << 3
}

/// The descriptor of a key, if it is one of a descriptor.
pub(crate) fn descriptor(key: usize) -> Option<u32> {
    is_descriptor(key).then_some((key >> 3) as u32)
}

/// Whether a key is that of a descriptor.
pub(crate) fn is_descriptor(key: usize) -> bool {
    key >> 63 != 0
}
