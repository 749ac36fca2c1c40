//! Renders SVG pictures as PNG, with an embedded font, because a machine may have no fonts.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use epaint_default_fonts::UBUNTU_LIGHT;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

/// Pixels per unit of the SVG.
const SCALE: f32 = 2.0;

/// Renders an SVG picture as PNG.
pub(crate) fn render(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut fonts = Database::new();
    fonts.load_font_data(UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    let options = Options { fontdb: Arc::new(fonts), font_family: "Ubuntu".into(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("the picture is no valid SVG")?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| anyhow!("a picture has no size"))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| anyhow!("a picture is too large"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("cannot encode a picture as PNG")
}
