//! Size classes: the sizes of slots and pooled objects.

use crate::operation::slot::Header;

/// Payload bytes of each size class. With the header, each stride is an odd number of cache lines.
pub(crate) const CLASSES: [usize; 11] =
    [128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384];

/// The maximum size of an operation's payload, in bytes.
pub(crate) const MAX_PAYLOAD: usize = CLASSES[CLASSES.len() - 1];

/// The size of a slot of a class, in bytes.
pub(crate) fn stride(class: u8) -> usize {
    size_of::<Header>() + CLASSES[usize::from(class).min(CLASSES.len() - 1)]
}

/// The smallest class that holds `size` bytes; `CLASSES.len()` if none is large enough.
pub(crate) const fn class_of(size: usize) -> usize {
    let mut class = 0;
    while class < CLASSES.len() && CLASSES[class] < size {
        class += 1;
    }
    class
}

/// Fails to compile when an operation does not fit a slot.
pub(crate) const fn assert_fits<P>() {
    assert!(
        size_of::<P>() <= MAX_PAYLOAD && align_of::<P>() <= 64,
        "an operation (its captures, its future or its result) is larger than 16 KiB, or aligned \
         to more than 64 bytes: box what is large in it"
    );
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strides_never_alias() {
        for bytes in CLASSES {
            assert_eq!((size_of::<Header>() + bytes) / 64 % 2, 1, "{bytes}");
        }
        assert_eq!((class_of(1), class_of(128), class_of(129)), (0, 0, 1));
        assert_eq!(class_of(MAX_PAYLOAD + 1), CLASSES.len());
    }
}
