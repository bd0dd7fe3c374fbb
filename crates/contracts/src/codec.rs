//! How messages become the bytes of a call.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BufMut;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// What a call's buffers hold before they grow. Most requests and answers have a few hundred bytes, and what is read of
/// a request may keep the buffer for as long as its run is in memory. Bytes.
const BUFFER: usize = 1024;

/// What a stream collects before it is sent, where more is ready. Bytes.
const SENT_AT_ONCE: usize = 32 * 1024;

/// The longest message that is encoded beside the call's buffer and then copied as a whole: prost writes byte after byte,
/// which costs more in the buffer than in a vector. Bytes.
const COPIED: usize = 4 * 1024;

/// The codec of tonic-prost, for small messages.
#[derive(Debug)]
pub struct SmallCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = SmallEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        SmallEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, SENT_AT_ONCE))
    }
}

/// Encodes the messages of one direction.
#[derive(Debug)]
pub struct SmallEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for SmallEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let length = item.encoded_len();
        buffer.reserve(length);
        if length <= COPIED {
            let mut bytes = Vec::with_capacity(length);
            item.encode_raw(&mut bytes);
            buffer.put_slice(&bytes);
        } else {
            item.encode_raw(buffer);
        }
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, SENT_AT_ONCE)
    }
}
