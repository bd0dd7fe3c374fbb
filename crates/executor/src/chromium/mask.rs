//! Painting over parts of a PNG.

use std::io::Cursor;

use png::{
    BitDepth, ColorType, Compression, Decoder, DecodingError, Encoder, EncodingError, Transformations,
};
use thiserror::Error;

use crate::page::Rect;

/// The colour of the masks: one that nobody takes for part of the page.
const COLOUR: [u8; 4] = [0xd0, 0x00, 0xd0, 0xff];

/// Largest picture that is read, in bytes of its pixels.
const LARGEST: usize = 16_384 * 16_384 * 4;

#[derive(Debug, Error)]
pub(super) enum MaskError {
    #[error(transparent)]
    Decoding(#[from] DecodingError),
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    #[error("it is too large, or of an unknown kind")]
    Kind,
}

/// Paints over the boxes. Returns the new picture, and whether any box was within it.
pub(super) fn paint(png: &[u8], boxes: &[Rect]) -> Result<(Vec<u8>, bool), MaskError> {
    let mut decoder = Decoder::new(Cursor::new(png));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let size = reader.output_buffer_size().filter(|size| *size <= LARGEST).ok_or(MaskError::Kind)?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels)?;
    let channels = match (frame.color_type, frame.bit_depth) {
        (ColorType::Rgb, BitDepth::Eight) => 3,
        (ColorType::Rgba, BitDepth::Eight) => 4,
        _ => return Err(MaskError::Kind),
    };
    let colour = COLOUR.get(..channels).unwrap_or_default();
    let (width, height) = (frame.width as usize, frame.height as usize);
    let mut masked = false;
    for rect in boxes {
        let (left, right) = span(rect.x, rect.width, width);
        let (top, bottom) = span(rect.y, rect.height, height);
        if left >= right {
            continue;
        }
        for row in pixels.chunks_exact_mut(frame.line_size).take(bottom).skip(top) {
            let part = row.get_mut(left * channels..right * channels).unwrap_or_default();
            for pixel in part.chunks_exact_mut(channels) {
                pixel.copy_from_slice(colour);
            }
            masked = true;
        }
    }
    if !masked {
        return Ok((png.to_vec(), false));
    }
    let mut painted = Vec::with_capacity(png.len());
    let mut encoder = Encoder::new(&mut painted, frame.width, frame.height);
    encoder.set_color(frame.color_type);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok((painted, true))
}

/// The pixels that a length touches, within the picture.
fn span(from: f64, length: f64, limit: usize) -> (usize, usize) {
    // Negative and endless numbers become 0 and the largest.
    let start = from.floor() as usize;
    let end = (from + length).ceil() as usize;
    (start.min(limit), end.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn white(color: ColorType, width: u32, height: u32) -> Vec<u8> {
        let mut png = Vec::new();
        let mut encoder = Encoder::new(&mut png, width, height);
        encoder.set_color(color);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![255; (width * height) as usize * color.samples()]).unwrap();
        writer.finish().unwrap();
        png
    }

    fn painted_pixels(color: ColorType, boxes: &[Rect]) -> (Vec<(usize, usize)>, bool) {
        let (png, masked) = paint(&white(color, 10, 8), boxes).unwrap();
        let mut reader = Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let channels = color.samples();
        let painted = pixels.chunks(channels).enumerate().filter(|(_, pixel)| pixel[1] == 0);
        (painted.map(|(index, _)| (index % 10, index / 10)).collect(), masked)
    }

    #[test]
    fn each_pixel_that_a_box_touches_is_painted_over() {
        for color in [ColorType::Rgb, ColorType::Rgba] {
            let (painted, masked) =
                painted_pixels(color, &[Rect { x: 1.5, y: 2.0, width: 1.0, height: 1.5 }]);
            assert_eq!(painted, [(1, 2), (2, 2), (1, 3), (2, 3)]);
            assert!(masked);
        }
    }

    #[test]
    fn boxes_outside_paint_nothing_and_boxes_at_the_edge_are_cut() {
        let outside = [
            Rect { x: 20.0, y: 0.0, width: 5.0, height: 5.0 },
            Rect { x: -9.0, y: 0.0, width: 5.0, height: 5.0 },
        ];
        assert_eq!(painted_pixels(ColorType::Rgb, &outside), (vec![], false));
        let edge = [Rect { x: 9.0, y: 7.0, width: 1e9, height: f64::INFINITY }];
        assert_eq!(painted_pixels(ColorType::Rgb, &edge).0, [(9, 7)]);
        let odd = [Rect { x: f64::NAN, y: f64::NAN, width: f64::NAN, height: 1.0 }];
        assert_eq!(painted_pixels(ColorType::Rgb, &odd), (vec![], false));
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        assert!(paint(b"no picture", &[]).is_err());
    }
}
