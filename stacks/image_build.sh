# CodeBuild runs this to build and push one image unless it exists (stacks/image_build.py sets the variables).
set -eu
image="$REGISTRY/$REPOSITORY:$TAG"
folder=$(mktemp -d)

# A tag is a hash of its image's inputs, and is immutable. If the image exists, an earlier deployment pushed it, and
# failed later.
if aws ecr describe-images --region "$AWS_REGION" --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG"; then
    echo "$image exists already"
    exit 0
fi
aws s3 cp --only-show-errors "$SOURCE" "$folder/source.zip"
unzip -q "$folder/source.zip" -d "$folder/source"
password=$(aws ecr get-login-password --region "$AWS_REGION") # not in a pipe, which would hide a failure
echo "$password" | docker login --username AWS --password-stdin "$REGISTRY"
# A single manifest in Docker's format: SageMaker has refused others (docs/images.md). ARGUMENTS: NAME=VALUE ...
set --
for argument in ${ARGUMENTS:-}; do set -- "$@" --build-arg "$argument"; done
docker buildx build --platform linux/amd64 --provenance=false --output type=docker "$@" \
    --file "$folder/source/$DOCKERFILE" ${TARGET:+--target "$TARGET"} --tag "$image" "$folder/source"
docker push "$image"
