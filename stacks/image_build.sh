# What CodeBuild runs to build one image (stacks/image_build.py sets the variables): build and push it unless it is
# there, then wait until every Region of the grid has it.
set -eu
image="$REGISTRY/$REPOSITORY:$TAG"
folder=$(mktemp -d)

# In a Region, or in one of another account: eu-west-1, eu-west-1/210987654321.
is_in() {
    account=$(echo "$1" | sed -n 's,.*/,,p')
    aws ecr describe-images --region "${1%/*}" ${account:+--registry-id "$account"} \
        --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG"
}

# A tag says what its image was built from, and cannot be moved: an image of this tag is what a deployment left behind
# that was rolled back, or that is tried again.
looks=
if is_in "$AWS_REGION"; then
    echo "$image is there already"
    looks=180 # a quarter of an hour: what a former build has pushed is on its way since then, or never comes
else
    aws s3 cp --only-show-errors "$SOURCE" "$folder/source.zip"
    unzip -q "$folder/source.zip" -d "$folder/source"
    password=$(aws ecr get-login-password --region "$AWS_REGION") # not in a pipe, where its failure would be overheard
    echo "$password" | docker login --username AWS --password-stdin "$REGISTRY"
    # One manifest in Docker's own form: SageMaker has refused others (docs/images.md).
    docker buildx build --platform linux/amd64 --provenance=false --output type=docker \
        --file "$folder/source/$DOCKERFILE" ${TARGET:+--target "$TARGET"} --tag "$image" "$folder/source"
    docker push "$image"
fi
for region in ${REGIONS:-}; do
    until is_in "$region"; do
        if [ "$looks" = 0 ]; then
            echo "$image is not in $region and does not come: ECR replicates nothing that was pushed before the rule for a Region," \
                "or before its repository was made anew. Delete it and deploy again, which pushes it anew:" \
                "aws ecr batch-delete-image --region $AWS_REGION --repository-name $REPOSITORY --image-ids imageTag=$TAG"
            exit 1
        fi
        echo "waiting until $image is replicated to $region"
        looks=${looks:+$((looks - 1))}
        sleep 5
    done
done
