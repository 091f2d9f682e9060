"""Ray casting of static solids in torch: shapes, textures, light."""
