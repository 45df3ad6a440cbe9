PACKAGES = ("datasets", "pillow")


def imagefolder(view):
    """Hugging Face `imagefolder`"""
    from datasets import Image, load_dataset

    data = load_dataset("imagefolder", data_dir=view, split="train")
    files = data.cast_column("image", Image(decode=False))
    for row, file in zip(data, files):
        yield file["image"]["path"], row["label"], row["image"].convert("RGB")
