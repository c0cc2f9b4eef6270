# What CodeBuild runs to build one image (stacks/image_build.py sets the variables): build and push it unless it exists.
set -eu
image="$REGISTRY/$REPOSITORY:$TAG"
folder=$(mktemp -d)

# A tag is a hash of everything that its image is built from, and cannot be moved: an image of this tag was pushed by an
# earlier deployment, which failed later.
if aws ecr describe-images --region "$AWS_REGION" --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG"; then
    echo "$image exists already"
    exit 0
fi
aws s3 cp --only-show-errors "$SOURCE" "$folder/source.zip"
unzip -q "$folder/source.zip" -d "$folder/source"
password=$(aws ecr get-login-password --region "$AWS_REGION") # not in a pipe, which would hide its failure
echo "$password" | docker login --username AWS --password-stdin "$REGISTRY"
# One manifest in Docker's own form: SageMaker has refused others (docs/images.md). ARGUMENTS are words: NAME=VALUE ...
set --
for argument in ${ARGUMENTS:-}; do set -- "$@" --build-arg "$argument"; done
docker buildx build --platform linux/amd64 --provenance=false --output type=docker "$@" \
    --file "$folder/source/$DOCKERFILE" ${TARGET:+--target "$TARGET"} --tag "$image" "$folder/source"
docker push "$image"
